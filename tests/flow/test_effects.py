"""Effects of handlers: what is recorded, what is answered, and where the job goes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import (
    App,
    DidNotHappen,
    EffectUnknown,
    Happened,
    RetryPolicy,
    StillUnknown,
    TemporaryFailure,
)
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from uuid import UUID

    from brokerjobs import Finding, JobContext, JobType, ReviewContext, SyncJobContext
    from brokerjobs.context import EffectOptions
    from tests.databases import Database
    from tests.flow.driving import Flow

QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))
UNSAFE: EffectOptions = {"repeatable": False, "time_limit": timedelta(milliseconds=500)}
KEYED: EffectOptions = {"repeatable": True, "key_valid_for": timedelta(hours=1)}


@dataclass
class Service:
    """The world outside: what it was asked for, by key."""

    calls: list[str] = field(default_factory=list[str])

    async def charge(self, key: str) -> int:
        self.calls.append(key)
        return len(self.calls)

    def charge_now(self, key: str) -> int:
        self.calls.append(key)
        return len(self.calls)


@dataclass
class Place:
    """Where a test's one job runs, and the world outside."""

    app: App
    database: Database
    broker_url: str
    calls: Service = field(default_factory=Service)

    def job(self, handler: Callable[..., Any], **options: Any) -> JobType[int, int]:
        """Declares the job type that `handler` handles."""
        options = {"repeatable": True, "retry": QUICK, "lease": timedelta(seconds=1), **options}
        declared = self.app.job_type("work", int, int, **options)
        declared.handler(handler)
        return declared

    @contextlib.asynccontextmanager
    async def running(self, **options: Any) -> AsyncGenerator[Flow]:
        """A worker and a coordinator."""
        async with (
            flow(self.app, self.database, self.broker_url) as made,
            coordinating(made),
            made.working(made.worker(**options)),
        ):
            yield made

    async def ended(self, declared: JobType[int, int], state: str = "succeeded", **options: Any) -> dict[str, Any]:
        """The record of a job of that type, once it is in that state."""
        async with self.running(**options) as made:
            submitted = await made.submit(declared, 1)
            return await made.reached(submitted.id, state, 20)


@pytest.fixture
def at(namespace: str, database: Database, broker_url: str) -> Place:
    return Place(App(namespace), database, broker_url)


def outcomes(record: dict[str, Any]) -> list[Any]:
    return [one["outcome"] and (one["outcome"]["as"], one["outcome"]["result"]) for one in record["effects"]]


async def test_effect__is_recorded_with_its_key_and_its_result(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        return await ctx.effect("charge", at.calls.charge, returns=int, **KEYED)

    record = await at.ended(at.job(work))
    [effect] = record["effects"]
    assert at.calls.calls == [effect["key"]] == [f"{record['id']}/charge"]
    assert record["result"] == effect["outcome"]["result"] == 1
    assert effect["outcome"]["attempt"] == effect["intents"][0]["attempt"] == record["attempts"][0]["id"]
    assert effect["valid_until"] > effect["intents"][0]["at"]


async def test_effect__of_a_sync_handler_is_the_same(at: Place) -> None:
    def work(_: int, ctx: SyncJobContext) -> int:
        return ctx.effect("charge", at.calls.charge_now, returns=int, **KEYED)

    record = await at.ended(at.job(work))
    assert (at.calls.calls, record["result"]) == ([f"{record['id']}/charge"], 1)


async def test_effect__that_is_recorded_is_not_done_again(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        receipt = await ctx.effect("charge", at.calls.charge, returns=int, **UNSAFE)
        if ctx.attempt.number < 3:
            message = "after the effect"
            raise TemporaryFailure(message)
        return receipt

    record = await at.ended(at.job(work))
    assert len(record["attempts"]) == 3
    assert at.calls.calls == [f"{record['id']}/charge"]
    assert record["result"] == 1


async def test_call__without_a_parameter_is_given_no_key(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        return await ctx.effect("charge", lambda: 7, returns=int, **UNSAFE)

    record = await at.ended(at.job(work))
    assert outcomes(record) == [("happened", 7)]


@pytest.mark.parametrize("declared", [True, False])
async def test_call__that_says_that_nothing_happened_is_tried_again_with_a_new_key(
    at: Place, *, declared: bool
) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        async def charge(key: str) -> int:
            if ctx.attempt.number == 1:
                raise ConnectionRefusedError if declared else DidNotHappen
            return await at.calls.charge(key)

        options: EffectOptions = {**UNSAFE, "did_not_happen": (ConnectionRefusedError,) if declared else ()}
        return await ctx.effect("charge", charge, returns=int, **options)

    record = await at.ended(at.job(work))
    assert outcomes(record) == [("did_not_happen", None), ("happened", 1)]
    assert at.calls.calls == [f"{record['id']}/charge/2"]


async def test_call__that_raises_leaves_it_unknown_whatever_the_handler_makes_of_it(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        def charge() -> int:
            raise ConnectionResetError

        with contextlib.suppress(ConnectionResetError):
            await ctx.effect("charge", charge, returns=int, **UNSAFE)
        return 9

    record = await at.ended(at.job(work), "review")
    [attempt] = record["attempts"]
    assert (attempt["report"]["reason"], attempt["result"]) == ("unknown_effect", 9)


async def test_call__over_its_time_limit_is_stopped_and_unknown(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        async def charge() -> int:
            await asyncio.Event().wait()
            return 1

        options: EffectOptions = {"repeatable": False, "time_limit": timedelta(milliseconds=50)}
        return await ctx.effect("charge", charge, returns=int, **options)

    record = await at.ended(at.job(work), "review")
    failure = record["attempts"][0]["failure"]
    assert failure["type"] == "TimeoutError"
    assert failure["message"] == "the call of effect 'charge' had not ended after its time limit of 50ms"


async def test_drain_limit__in_the_middle_of_a_call_goes_to_review(at: Place) -> None:
    called = asyncio.Event()

    async def work(_: int, ctx: JobContext) -> int:
        async def charge() -> int:
            called.set()
            await asyncio.Event().wait()
            return 1

        return await ctx.effect("charge", charge, returns=int, repeatable=False, time_limit=timedelta(seconds=10))

    declared = at.job(work, lease=timedelta(seconds=20))
    async with flow(at.app, at.database, at.broker_url) as made:
        submitted = await made.submit(declared, 1)
        async with coordinating(made), made.working(made.worker(drain=timedelta(0))):
            await asyncio.wait_for(called.wait(), 20)
        record = await made.record(submitted.id)
    assert record["state"] == "review"
    assert record["attempts"][0]["report"]["as"] == "released"


async def test_cancelled__while_it_waits_for_permission_it_says_that_it_did_not_happen(at: Place) -> None:
    """The grant comes, nobody waits for it any more, and nobody calls: not a review."""

    async def work(_: int, ctx: JobContext) -> int:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await ctx.effect("charge", at.calls.charge, returns=int, **UNSAFE)
        return 0

    record = await at.ended(at.job(work))
    assert outcomes(record) == [("did_not_happen", None)]
    assert (at.calls.calls, record["reviews"]) == ([], [])


async def test_name__used_twice_in_an_attempt_is_an_error(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        await ctx.effect("charge", at.calls.charge, returns=int, **KEYED)
        return await ctx.effect("charge", at.calls.charge, returns=int, **KEYED)

    record = await at.ended(at.job(work, retry=RetryPolicy(attempts=1)), "failed")
    failure = record["attempts"][0]["failure"]
    assert failure["type"] == "ConfigurationError"
    assert "used before in this attempt" in failure["message"]
    assert len(at.calls.calls) == 1


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("a/b", {"repeatable": True}, "without /"),
    ("charge", {}, "repeatable= is missing"),
    ("charge", {"repeatable": True, "time_limit": timedelta(seconds=2)}, "longer than the lease"),
    ("charge", {"repeatable": True, "time_limit": timedelta(0)}, "is no time"),
    ("charge", {"repeatable": False, "key_valid_for": timedelta(hours=1)}, "is for repeatable=True"),
    ("charge", {"repeatable": True, "key_valid_for": timedelta(0)}, "is shorter than its time limit"),
    ("charge", {"repeatable": True, "keys": 1}, "keys= is not known"),
]


@pytest.mark.parametrize(("name", "options", "said"), BAD)
async def test_effect__that_cannot_be_says_why_before_anything_is_done(
    at: Place, name: str, options: Any, said: str
) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        return await ctx.effect(name, at.calls.charge, returns=int, **options)

    record = await at.ended(at.job(work, retry=RetryPolicy(attempts=1)), "failed")
    assert said in record["attempts"][0]["failure"]["message"]
    assert (at.calls.calls, record["effects"]) == ([], [])


async def test_result__that_is_not_what_returns_says_happened_all_the_same(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        return await ctx.effect("charge", lambda: "seven", returns=int, **UNSAFE)  # type: ignore[arg-type, misc]

    record = await at.ended(at.job(work, retry=RetryPolicy(attempts=1)), "failed")
    assert outcomes(record) == [("happened", None)]
    assert record["attempts"][0]["failure"]["type"] == "InvalidResult"


async def test_stale_attempt__begins_no_effect(at: Place) -> None:
    async def work(_: int, ctx: JobContext) -> int:
        if ctx.attempt.number == 1:
            time.sleep(0.4)  # noqa: ASYNC251  # the event loop is blocked, and the lease that nobody can renew lost
        return await ctx.effect("charge", at.calls.charge, returns=int, **KEYED)

    lease = timedelta(milliseconds=200)
    record = await at.ended(at.job(work, lease=lease), renewal=timedelta(seconds=0.09))
    assert record["state"] == "succeeded"
    assert len(at.calls.calls) == 1


async def test_unknown_effect__is_answered_with_an_error_that_cannot_be_swallowed(at: Place) -> None:
    seen: list[type[BaseException]] = []

    async def work(_: int, ctx: JobContext) -> int:
        if ctx.attempt.number == 1:
            await ctx.effect("charge", lambda: 1 // 0, returns=int, repeatable=True)
        try:
            return await ctx.effect("charge", at.calls.charge, returns=int, **UNSAFE)
        except EffectUnknown as error:
            seen.append(type(error))
            return 0

    record = await at.ended(at.job(work, failures={ZeroDivisionError: "temporary"}), "review")
    assert seen == [EffectUnknown]
    assert at.calls.calls == []
    assert "effect charge" in record["reviews"][0]["cause"]


async def asked_about(at: Place, reconciler: Callable[..., Any], state: str) -> dict[str, Any]:
    """A job whose effect is unknown, and a worker that has its reconciler."""

    async def work(_: int, ctx: JobContext) -> int:
        def charge() -> int:
            raise ConnectionResetError

        if ctx.attempt.number > 1:
            return ctx.attempt.number
        return await ctx.effect("charge", charge, returns=int, **UNSAFE)

    declared = at.job(work)
    declared.reconciler(reconciler)
    return await at.ended(declared, state, reconcile=timedelta(milliseconds=50))


async def test_reconciler__that_found_out_that_it_happened_ends_the_job(at: Place) -> None:
    seen: list[tuple[int, ReviewContext]] = []

    async def reconciler(payload: int, ctx: ReviewContext) -> Finding[int]:
        seen.append((payload, ctx))
        return Happened(42, "psp 4711")

    record = await asked_about(at, reconciler, "succeeded")

    [(payload, ctx)] = seen
    assert (payload, str(ctx.job_id), ctx.asked) == (1, record["id"], 1)
    assert [(one.name, one.key) for one in ctx.effects] == [("charge", f"{record['id']}/charge")]
    assert record["result"] == 42
    assert record["reviews"][0]["reference"] == "psp 4711"


async def test_reconciler__that_found_out_that_it_did_not_has_the_job_retried_after_the_calls_time_limit(
    at: Place,
) -> None:
    def reconciler(_: int) -> Finding[int]:
        return DidNotHappen("no such charge")

    record = await asked_about(at, reconciler, "succeeded")

    assert outcomes(record) == [("did_not_happen", None)]
    kinds = [event["kind"] for event in record["events"]]
    assert "reconciler_too_early" in kinds
    assert record["result"] == 2


@pytest.mark.parametrize(
    "finding", [StillUnknown("no answer"), "done", Happened("x", "r"), Happened(1, ""), ConnectionError(), SystemExit()]
)
async def test_reconciler__that_does_not_know_or_fails_leaves_it_in_review(at: Place, finding: Any) -> None:
    noted: list[UUID] = []

    async def reconciler(_: int, ctx: ReviewContext) -> Any:
        noted.append(ctx.review_id)
        if isinstance(finding, BaseException):
            raise finding
        return finding

    async def work(_: int, ctx: JobContext) -> int:
        return await ctx.effect("charge", lambda: 1 // 0, returns=int, **UNSAFE)

    declared = at.job(work)
    declared.reconciler(reconciler)
    async with at.running(reconcile=timedelta(milliseconds=50)) as made:
        submitted = await made.submit(declared, 1)

        async def asked() -> bool:
            record = await made.record(submitted.id)
            return any(event["kind"] == "reconciler_unknown" for event in record["events"])

        await eventually(asked, 20)
        record = await made.record(submitted.id)
    assert record["state"] == "review"
    assert len(noted) == 1
