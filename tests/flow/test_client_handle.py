"""What a handle tells of its job, and how results are waited for."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from brokerjobs import (
    AttemptShown,
    ConfigurationError,
    DecidedByPerson,
    InReview,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobState,
    RefusedMove,
    ResultTimeout,
    Submission,
    Waiting,
)
from brokerjobs.client import CancelOutcome
from brokerjobs.client.waiting import Waiting as Waiters
from brokerjobs.ledger import decisions
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.rules.states import ClosedAs, ReportAs
from tests.flow.producing import Charge, Receipt, Shop, shop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database

LONG = timedelta(seconds=20)
TEMPORARY = {
    "class": "temporary",
    "classified": True,
    "type": "ConnectError",
    "message": "psp is away",
    "traceback": "",
}
INVALID = {"class": "invalid", "classified": True, "type": "CardRefused", "message": "no such card", "traceback": ""}
UNSAFE = {"class": "unsafe", "classified": True, "type": "UnknownOutcome", "message": "no answer", "traceback": ""}


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


async def test_status__says_what_a_queued_job_waits_for(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(), deadline=timedelta(hours=1))
        waiting = await handle.status()
        holding = made.claim(handle.id)
        running = await handle.status()
        made.fail(holding, json.dumps(TEMPORARY | {"retry_after": 60}))
        retried = await handle.status()
    assert (waiting.state, waiting.waiting, waiting.attempts) == (JobState.QUEUED, Waiting.DELIVERY, 0)
    assert not waiting.past_deadline
    assert (running.state, running.waiting, running.attempts) == (JobState.RUNNING, None, 1)
    assert (retried.state, retried.waiting) == (JobState.QUEUED, Waiting.RETRY)
    assert retried.until is not None
    assert retried.detail["message"] == "psp is away"


async def test_status__past_its_deadline_says_so(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(), deadline=timedelta(hours=1))
        await made.execute(
            "create or replace function brokerjobs.clock() returns timestamptz language sql volatile"
            " as $$ select clock_timestamp() + interval '2 hours' $$"
        )
        assert (await handle.status()).past_deadline


async def test_record__is_typed_and_keeps_its_json(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(), key="order-1", tags={"order": "1"})
        holding = made.claim(handle.id)
        open_one = (await handle.record()).attempts[0]
        made.fail(holding, json.dumps(INVALID))
        record = await handle.record()
    (attempt,) = record.attempts
    assert (open_one.state, open_one.closed, open_one.report) == (AttemptShown.CLAIMED, None, None)
    assert (attempt.id, attempt.number, attempt.fencing_number) == (holding.attempt_id, 1, holding.fencing_number)
    assert (attempt.state, attempt.worker, attempt.late) == (AttemptShown.FAILED, "worker-a", False)
    assert attempt.closed is not None
    assert attempt.closed.closed_as is ClosedAs.FAILED
    assert attempt.report is not None
    assert (attempt.report.reported_as, attempt.report.verdict) == (ReportAs.FAILED, "recorded")
    assert attempt.lease.first_until - attempt.claimed_at == made.charge.terms.lease
    assert record.state is JobState.FAILED
    assert record.failure is not None
    assert (record.failure.failure_class, record.failure.reason) == ("invalid", "no such card")
    assert record.finished_at == attempt.closed.at
    assert record.data["schema"] == "brokerjobs.job/1"
    assert [event["kind"] for event in record.data["events"]] == ["submitted", "claimed", "attempt_failed"]


async def test_result__of_a_finished_job_is_answered_at_once(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        made.complete(handle.id, Receipt(reference="r-1"))
        assert await handle.result(timeout=LONG) == Receipt(reference="r-1")


async def test_result__is_waited_for(made: Shop) -> None:
    async with made.client() as client, asyncio.TaskGroup() as group:
        handles = await client.submit_many(made.charge, [Submission(Charge(cents=cents)) for cents in range(10)])
        waiters = [group.create_task(handle.result(timeout=LONG)) for handle in handles * 2]
        for place, handle in enumerate(handles):
            await asyncio.to_thread(made.complete, handle.id, Receipt(reference=f"r-{place}"))
        receipts = await asyncio.gather(*waiters)
    assert [receipt.reference for receipt in receipts] == [f"r-{place}" for place in range(10)] * 2


async def test_result__of_a_failed_job_raises_with_every_attempt(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        first = made.claim(handle.id)
        made.fail(first, json.dumps(TEMPORARY | {"retry_after": 0}))
        second = made.claim(handle.id)
        made.fail(second, json.dumps(INVALID))
        with pytest.raises(JobFailed) as failed:
            await handle.result(timeout=LONG)
    assert (failed.value.job_id, failed.value.failure_class, failed.value.reason) == (
        handle.id,
        "invalid",
        "no such card",
    )
    assert [
        (one.number, one.attempt_id, one.failure_class, one.error_type, one.message) for one in failed.value.attempts
    ] == [
        (1, first.attempt_id, "temporary", "ConnectError", "psp is away"),
        (2, second.attempt_id, "invalid", "CardRefused", "no such card"),
    ]
    assert all(one.worker == "worker-a" and one.ended_at is not None for one in failed.value.attempts)


async def test_result__of_a_job_whose_attempts_were_lost_names_them(made: Shop) -> None:
    """Nobody reported anything: what is known is that their leases expired."""
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(), deadline=timedelta(hours=1))
        made.claim(handle.id)
        made.let_time_pass("2 hours")
        with pytest.raises(JobFailed) as failed:
            await handle.result(timeout=LONG)
    (lost,) = failed.value.attempts
    assert (lost.failure_class, lost.error_type, lost.message) == ("temporary", "timed_out", "lease expired")
    assert failed.value.failure_class == "deadline"


async def test_result__of_a_cancelled_job_says_why(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        assert await handle.cancel(reason="changed their mind") is CancelOutcome.CANCELLED
        with pytest.raises(JobCancelled, match="changed their mind"):
            await handle.result(timeout=LONG)


async def test_result__of_a_job_in_review_says_so(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        made.fail(made.claim(handle.id), json.dumps(UNSAFE))
        with pytest.raises(InReview, match="outcome is unknown"):
            await handle.result(timeout=LONG)


async def test_result__of_a_job_that_a_person_decided_is_the_one_given_or_says_who_decided(made: Shop) -> None:
    async with made.client() as client:
        with_one, without = [await client.submit(made.charge, Charge()) for _ in range(2)]
        for handle, result in ((with_one, '{"reference": "r-1"}'), (without, None)):
            made.fail(made.claim(handle.id), json.dumps(UNSAFE))
            made.decide(handle.id, decisions.Resolution(decision="happened", reference="psp 4711", result=result))
        given = await with_one.result(timeout=LONG)
        with pytest.raises(DecidedByPerson, match="decided by ann, without a result: it happened") as decided:
            await without.result(timeout=LONG)
        record = await without.record()
    assert given == Receipt(reference="r-1")
    error = decided.value
    assert (error.job_id, error.by, error.reason, error.reference) == (without.id, "ann", "looked", "psp 4711")
    assert error.at == record.finished_at


async def test_result__that_does_not_come_in_time_says_where_the_job_stands(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        with pytest.raises(ResultTimeout) as queued:
            await handle.result(timeout=timedelta(seconds=1.5))
        made.claim(handle.id)
        with pytest.raises(ResultTimeout) as running:
            await handle.result(timeout=timedelta(seconds=1.5))
    assert queued.value.state == "queued (delivery)"
    assert running.value.state == "running"
    assert running.value.__cause__ is None


async def test_unknown_job__is_not_found(made: Shop) -> None:
    async with made.client() as client:
        handle = client.handle(made.charge, uuid7())
        for asked in (
            handle.status(),
            handle.record(),
            handle.result(timeout=LONG),
            handle.cancel(reason="?"),
        ):
            with pytest.raises(JobNotFound, match=str(handle.id)):
                await asked


async def test_cancel__of_a_running_job_is_requested_and_of_a_finished_one_refused(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge())
        holding = made.claim(handle.id)
        assert await handle.cancel(reason="too late?") is CancelOutcome.REQUESTED
        status = await handle.status()
        made.fail(holding, json.dumps(TEMPORARY))
        with pytest.raises(RefusedMove) as refused:
            await handle.cancel(reason="again")
    assert status.state is JobState.RUNNING
    assert status.cancel is not None
    assert (status.cancel.by, status.cancel.reason) == ("orders-api", "too late?")
    assert refused.value.state == "cancelled"


class _Counting(AsyncLedgerConnection):
    """Counts its statements, and the jobs asked for."""

    def __init__(self, options: ConnectOptions) -> None:
        super().__init__(options)
        self.asked: list[int] = []

    async def fetch(self, query: Any) -> Any:
        self.asked.append(str(query.params[0]).count("-") // 4)
        return await super().fetch(query)


async def test_waiters__share_one_poll(made: Shop) -> None:
    """A hundred waiters cost no more questions than one."""
    async with made.client() as client:
        handles = await client.submit_many(made.charge, [Submission(Charge())] * 100)
    ledger = _Counting(ConnectOptions(made.database.producer_url))
    waiting = Waiters(ledger)
    asking = asyncio.create_task(waiting.run())
    began = time.monotonic()
    answers = await asyncio.gather(
        *(waiting.outcome(handle.id, timedelta(seconds=1.2)) for handle in handles), return_exceptions=True
    )
    took = time.monotonic() - began
    asking.cancel()
    await ledger.close()
    assert {type(answer) for answer in answers} == {ResultTimeout}
    # At once, then after 50, 150, 350, 750 ms; each falls on a grid of 50 ms, and a slow machine only delays them.
    assert len(ledger.asked) <= 5 + took / 1.2
    assert ledger.asked[1:] == [100] * (len(ledger.asked) - 1)


async def test_client__that_is_not_open_says_so(made: Shop) -> None:
    client = made.client()
    with pytest.raises(ConfigurationError, match="async with"):
        await client.submit(made.charge, Charge())
    async with client:
        handle = await client.submit(made.charge, Charge())
        with pytest.raises(ConfigurationError, match="already open"):
            await client.__aenter__()
        late = asyncio.create_task(handle.result(timeout=LONG))
        await asyncio.sleep(0)
    with pytest.raises(ConfigurationError, match="closed"):
        await late
    with pytest.raises(ConfigurationError):
        await client.find(made.charge, key="order-1")
    async with client:  # and it can be opened again
        assert (await client.handle(made.charge, handle.id).status()).state is JobState.QUEUED


async def test_client__lets_the_callers_error_pass(made: Shop) -> None:
    async def submit_and_fail() -> None:
        async with made.client() as client:
            await client.submit(made.charge, Charge())
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await submit_and_fail()
    assert await made.count("job") == 1


async def test_client__may_be_left_by_another_task(made: Shop) -> None:
    """As test fixtures do."""
    client = made.client()
    await asyncio.create_task(client.__aenter__())
    await client.submit(made.charge, Charge())
    await asyncio.create_task(client.__aexit__(None, None, None))
    assert await made.count("job") == 1


@pytest.mark.parametrize("name", ["", "x" * 256, "nul\x00"])
async def test_client__needs_a_name(made: Shop, name: str) -> None:
    with pytest.raises(ConfigurationError, match="submitted_by"):
        made.client(name)


async def test_app__gives_clients_by_its_settings(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="database_url"):
        made.made.app.client(submitted_by="orders-api", broker_url=made.made.broker_url)
    monkeypatch.setenv("BROKERJOBS_DATABASE_URL", made.database.producer_url)
    async with made.made.app.client(submitted_by="orders-api", broker_url=made.made.broker_url) as client:
        handle = await client.submit(made.charge, Charge())
        await made.all_announced()
    assert isinstance(handle.id, UUID)
