"""What handlers, models and other people's SQL hand to a worker that cannot be stored: said, and harmless to others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import BaseModel, field_validator

from brokerjobs import App, InvalidJob, RetryPolicy, Snooze, TemporaryFailure
from tests.flow.driving import Flow, coordinating, flow
from tests.hostile_values import HUGE, deep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from brokerjobs import JobType
    from tests.databases import Database

ONCE = RetryPolicy(attempts=1)
BEFORE_YEAR_1 = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))  # in UTC


RESULTS: dict[str, tuple[Any, str]] = {
    "NaN": ([1.5, {"price": float("nan")}], "at [1].price: NaN and infinity are not JSON"),
    "infinity": (float("-inf"), "at top level: NaN and infinity are not JSON"),
    "NUL": ({"note": "a\0b"}, "at note: the text has a NUL (U+0000)"),
    "half a character": (["\ud800"], "at [0]: the text has a lone surrogate"),
    "a hundred thousand digits": ({"k": HUGE}, "at k: the integer has more than 4300 digits"),
    "a hundred thousand levels": ({"a": deep()}, "nested deeper than 64 levels"),
    "a naive datetime": (datetime(2024, 1, 1), "at top level: datetime would come back as str"),  # noqa: DTZ001
    "an object": ({"x": object()}, "at x: it cannot be written as JSON"),
    "a set": ([{1}], "at [0]: set would come back as list"),
    "20 MiB": (
        "x" * 20 * 2**20,
        "20971522 bytes of JSON, 20709378 over the limit of 262144; keep large data in an artifact: stage it",
    ),
}


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Strict(BaseModel):
    count: int

    @field_validator("count")
    @classmethod
    def refuse(cls, count: int) -> int:
        if count == 0:
            raise ValueError("a\0b " + "x" * 100_000)
        return count


FAILURES: dict[str, tuple[Callable[[], BaseException], str]] = {
    "NUL": (lambda: RuntimeError("a\0b"), "a\ufffdb"),
    "half a character": (lambda: RuntimeError("\ud800"), "\ufffd"),
    "10 MB": (lambda: RuntimeError("x" * 10**7), "xxx"),
    "a hundred thousand digits": (lambda: RuntimeError(HUGE), "(str() of it raised ValueError)"),
    "a hundred thousand levels": (lambda: RuntimeError(deep()), "(str() of it raised RecursionError)"),
    "no text at all": (Broken, "(str() of it raised RuntimeError)"),
    "a group": (lambda: ExceptionGroup("g\0", [ValueError("\ud800"), ValueError("b")]), "g\ufffd"),
    "a type with a long name": (lambda: type("E" * 5000, (Exception,), {})("said"), "said"),
    "a wait beyond all bounds": (lambda: TemporaryFailure("busy", retry_after=timedelta.max), "busy"),
    "an invalid job": (lambda: InvalidJob("\0"), "\ufffd"),
}


class Stage:
    """One app whose handlers return and raise what their payload names."""

    def __init__(self, namespace: str) -> None:
        self.app = App(namespace)

        @self.app.job("give", repeatable=True, retry=ONCE)
        async def give(what: str) -> Any:
            return RESULTS[what][0]

        @self.app.job("fail", repeatable=True, retry=ONCE)
        async def fail(what: str) -> None:
            raised = FAILURES[what][0]
            raise raised()

        @self.app.job("snooze", repeatable=True, retry=ONCE)
        async def snooze(what: str) -> None:
            raise Snooze(BEFORE_YEAR_1 if what == "past" else datetime.max.replace(tzinfo=UTC))

        @self.app.job("strict", repeatable=True, retry=ONCE)
        async def strict(payload: Strict) -> int:
            return payload.count

        self.give, self.fail, self.snooze, self.strict = give, fail, snooze, strict
        self.made: Flow

    async def failures(self, job_type: JobType[str, Any], *payloads: str) -> dict[str, dict[str, Any]]:
        """The records of the jobs, once all have failed."""
        jobs = {payload: await self.made.submit(job_type, payload) for payload in payloads}
        for job in jobs.values():
            await self.made.ring(job.id)
        return {payload: await self.made.reached(job.id, "failed", 30) for payload, job in jobs.items()}

    async def works_on(self) -> None:
        """A neighbour is still done, by the same worker."""
        job = await self.made.submit(self.strict, Strict(count=3))
        await self.made.ring(job.id)
        assert (await self.made.reached(job.id, "succeeded"))["result"] == 3


@pytest.fixture
async def on(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Stage]:
    stage = Stage(namespace)
    async with (
        flow(stage.app, database, broker_url) as stage.made,
        coordinating(stage.made),
        stage.made.working(stage.made.worker()),
    ):
        yield stage


async def test_result__that_cannot_be_stored_is_a_failure_that_says_where(on: Stage) -> None:
    for what, record in (await on.failures(on.give, *RESULTS)).items():
        failure = record["attempts"][0]["failure"]
        assert failure["type"] in {"InvalidResult", "ResultTooLarge"}, what
        assert RESULTS[what][1] in failure["message"], what
        assert record["result"] is None
    await on.works_on()


async def test_failure__whatever_it_says_is_kept_as_text_within_bounds(on: Stage) -> None:
    for what, record in (await on.failures(on.fail, *FAILURES)).items():
        failure = record["attempts"][0]["failure"]
        assert failure["message"].startswith(FAILURES[what][1]), what
        assert len(failure["message"]) <= 2_000, what
        assert len(failure["type"]) <= 200, what
        assert len(failure["traceback"]) <= 16_000, what
    await on.works_on()


async def test_snooze__until_a_time_beyond_all_bounds_harms_nobody(on: Stage) -> None:
    records = await on.failures(on.snooze, "past", "future")
    # In the past it is due at once, until the uncharged ways are used up and the one attempt of the job is charged.
    assert {what: len(record["attempts"]) for what, record in records.items()} == {"past": 21, "future": 1}
    assert {record["failure"]["class"] for record in records.values()} == {"exhausted"}
    await on.works_on()


async def test_model__that_refuses_with_text_that_cannot_be_stored_is_a_failure(on: Stage) -> None:
    job_id = await _submit_unchecked(on, '{"count": 0}')
    failure = (await on.made.reached(job_id, "failed"))["attempts"][0]["failure"]
    assert failure["class"] == "invalid"
    assert failure["message"].startswith("payload of job type 'strict' is invalid at count: Value error, a\ufffdb x")
    assert len(failure["message"]) <= 2_000
    await on.works_on()


async def _submit_unchecked(on: Stage, payload: str) -> Any:
    async with await psycopg.AsyncConnection.connect(on.made.database.producer_url, autocommit=True) as connection:
        rows = await connection.execute(
            "select verdict, job_id from brokerjobs.submit_v1(%s, 'strict', %s::jsonb)", [on.app.namespace, payload]
        )
        ((verdict, job_id),) = await rows.fetchall()
    assert verdict == "created"
    return job_id


async def test_report__that_the_ledger_refuses_is_a_failure_that_says_so(on: Stage) -> None:
    async with await psycopg.AsyncConnection.connect(on.made.database.admin_url, autocommit=True) as connection:
        await connection.execute(
            "create function refuse_it() returns trigger language plpgsql as"
            " $$ begin raise exception 'no such thing' using errcode = 'data_exception'; end $$"
        )
        await connection.execute(
            "create trigger refuse_it before update on brokerjobs.attempt for each row"
            " when (new.failure ->> 'type' = 'RuntimeError' or new.result = '7') execute function refuse_it()"
        )
    failed = (await on.failures(on.fail, "NUL"))["NUL"]["attempts"][0]["failure"]
    assert (failed["type"], failed["classified"]) == ("ReportRefused", False)
    assert failed["message"] == "the ledger could not store how the handler ended: no such thing"
    job = await on.made.submit(on.strict, Strict(count=7))
    await on.made.ring(job.id)
    refused = (await on.made.reached(job.id, "failed"))["attempts"][0]["failure"]
    assert (refused["class"], refused["message"]) == ("invalid", "no such thing")
    await on.works_on()
