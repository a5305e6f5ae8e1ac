"""Replies about effects that never come, though the ledger has committed: asked again with the same ids (rule R7)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App, RetryPolicy
from tests.flow.driving import coordinating, flow
from tests.flow.troubled import troubled
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs import JobContext, SyncJobContext
    from tests.databases import Database

QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))
CALL = timedelta(milliseconds=500)
REQUESTS = {"intent": b"brokerjobs.effect_intent(", "outcome": b"brokerjobs.effect_outcome("}


def kinds(record: dict[str, Any]) -> list[str]:
    """What was recorded of effects; not what closed a review."""
    found = [event["kind"] for event in record["events"]]
    return [kind for kind in found if kind.startswith("effect_") and kind != "effect_known"]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("request_of", ["intent", "outcome"])
async def test_reply__about_an_effect_that_is_lost_is_asked_for_again(
    database: Database, namespace: str, broker_url: str, *, request_of: str, repeatable: bool, in_thread: bool
) -> None:
    app, calls = App(namespace), list[str]()
    declared = app.job_type("pay", int, int, repeatable=False, lease=timedelta(seconds=5), retry=QUICK)

    def charge(key: str) -> int:
        calls.append(key)
        return len(calls)

    def work(_: int, ctx: SyncJobContext) -> int:
        return ctx.effect("charge", charge, returns=int, repeatable=repeatable, time_limit=CALL)

    async def work_async(_: int, ctx: JobContext) -> int:
        return await ctx.effect("charge", charge, returns=int, repeatable=repeatable, time_limit=CALL)

    if in_thread:
        declared.handler(work)
    else:
        declared.handler(work_async)
    async with troubled(database.worker_url) as (line, url), flow(app, database, broker_url) as made:
        async with coordinating(made), made.working(made.worker(database_url=url)):
            line.lose_reply_to(REQUESTS[request_of])
            (job,) = await made.submit_many(declared, [1])
            record = await made.reached(job, "succeeded", 20)
        assert line.lost == 1
    assert calls == [f"{job}/charge"]
    assert kinds(record) == ["effect_intent", "effect_happened"]
    [effect] = record["effects"]
    assert [intent["attempt"] for intent in effect["intents"]] == [record["attempts"][0]["id"]]
    assert (effect["outcome"]["result"], record["result"], record["reviews"]) == (1, 1, [])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("request_of", ["intent", "outcome"])
async def test_reply__that_comes_after_the_lease_is_lost_decides_what_is_known(
    database: Database, namespace: str, broker_url: str, *, request_of: str
) -> None:
    """The attempt is given up meanwhile, and the job in review: the answer to the same request closes it."""
    app, calls = App(namespace), list[str]()

    @app.job("pay", repeatable=True, lease=timedelta(seconds=1), retry=QUICK)
    async def pay(_: int, ctx: JobContext) -> int:
        def charge(key: str) -> int:
            calls.append(key)
            return len(calls)

        return await ctx.effect("charge", charge, returns=int, repeatable=False, time_limit=CALL)

    async with (
        troubled(database.worker_url) as (line, url),
        flow(app, database, broker_url) as made,
        coordinating(made),
        made.working(made.worker(database_url=url)),
    ):
        line.lose_reply_to(REQUESTS[request_of], for_long=True)
        (job,) = await made.submit_many(pay, [1])

        async def is_lost() -> bool:
            return line.lost == 1

        await eventually(is_lost, 30)
        await made.reached(job, "review" if request_of == "intent" else "queued", 30)
        await line.start()
        record = await made.reached(job, "succeeded", 30)
    recorded = ["effect_intent", "effect_did_not_happen", "effect_intent", "effect_happened"]
    if request_of == "intent":  # nobody made the call that was permitted
        assert (calls, kinds(record)) == ([f"{job}/charge/2"], recorded)
        assert len(record["reviews"]) == 1
    else:
        assert (calls, kinds(record)) == ([f"{job}/charge"], recorded[2:])
        assert record["reviews"] == []
