"""Group commit against a real ledger: batches grow by themselves; rows may be bad, busy or unanswered."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from brokerjobs.errors import LedgerUnavailable
from brokerjobs.ledger import calls, schema, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, DataRefused
from brokerjobs.ledger.group_commit import MAX_BYTES, GroupCommit
from tests.databases import replaced
from tests.ledger.ledger_caller import Caller, Place, holding_of, new_job
from tests.ledger.ledger_clock import LedgerClock
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from brokerjobs.ledger.calls import Holding, Report, Reported
    from tests.conftest import PostgresFactory
    from tests.ledger.ledger_driver import Ledger

Gathered = GroupCommit[calls.Report, calls.Reported]


class Completing:
    """A group commit of results over a worker's connection, which counts its calls; `before` and `after` are hooks."""

    def __init__(self, url: str, **options: Any) -> None:
        self.connection = AsyncLedgerConnection(ConnectOptions(url))
        self.sizes: list[int] = []
        self.before: Callable[[], Any] | None = None
        self.after: Callable[[], Any] | None = None
        self.gathered: Gathered = GroupCommit(
            self._call, is_locked=lambda answer: answer.verdict == "locked", **options
        )

    async def _call(self, reports: Sequence[Report]) -> Sequence[Reported]:
        self.sizes.append(len(reports))
        if self.before is not None:
            await self.before()
        answers = await self.connection.fetch(calls.complete(reports))
        if self.after is not None:
            self.after()
        return answers

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Gathered]:
        task = asyncio.create_task(self.gathered.run())
        yield self.gathered
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.connection.close()


def _report(ledger: Ledger, holding: Holding, body: str = "{}") -> Report:
    return calls.Report(holding, body, ledger.clock.now, None)


def _size(report: Report) -> int:
    return len(report.body)


def _claimed(ledger: Ledger, count: int) -> list[Holding]:
    jobs = [answer.id for answer in ledger.submit_all([new_job() for _ in range(count)])]
    return [holding_of(answer) for answer in ledger.worker.claim_all([(job, uuid7()) for job in jobs])]


async def test_batches__take_whatever_waits_when_the_connection_is_free(ledger: Ledger) -> None:
    holdings = _claimed(ledger, 451)
    free = asyncio.Event()
    completing = Completing(ledger.database.worker_url)
    completing.before = free.wait
    async with completing.running() as gathered:
        first = gathered.ask(_report(ledger, holdings[0]))
        await eventually(_of(lambda: completing.sizes == [1]))
        others = [gathered.ask(_report(ledger, holding, f'{{"n": {n}}}')) for n, holding in enumerate(holdings[1:])]
        assert len(gathered) == 450
        free.set()
        answers = await asyncio.gather(first, *others)

    assert completing.sizes == [1, 200, 200, 50]
    assert [answer.job_id for answer in answers] == [holding.job_id for holding in holdings]
    assert {answer.verdict for answer in answers} == {"accepted"}
    assert ledger.rows.attempt(holdings[450].attempt_id).result == {"n": 449}


async def test_batches__are_bounded_by_bytes(ledger: Ledger) -> None:
    holdings = _claimed(ledger, 5)
    body = json.dumps("x" * 400_000)
    completing = Completing(ledger.database.worker_url, size=_size)
    async with completing.running() as gathered:
        answers = await asyncio.gather(*(gathered.ask(_report(ledger, holding, body)) for holding in holdings))

    assert 2 * 400_000 < MAX_BYTES < 3 * 400_000
    assert completing.sizes == [2, 2, 1]
    assert {answer.verdict for answer in answers} == {"accepted"}


async def test_batches__take_a_row_that_is_larger_than_a_batch_alone(ledger: Ledger) -> None:
    small, large = _claimed(ledger, 2)
    completing = Completing(ledger.database.worker_url, size=_size)
    async with completing.running() as gathered:
        asked = [
            gathered.ask(_report(ledger, large, json.dumps("x" * (MAX_BYTES + 1)))),
            gathered.ask(_report(ledger, small)),
        ]
        assert {answer.verdict for answer in await asyncio.gather(*asked)} == {"accepted"}

    assert completing.sizes == [1, 1]


BAD = {
    "a NUL character": '"\\u0000"',
    "half a character": '"\\ud800"',
    "no JSON": "{",
    "a number that no numeric holds": "1e999999",
    "nested too deep for the server's stack": "[" * 100_000 + "]" * 100_000,
    "a text that UTF-8 cannot write": '"\ud800"',
}


@pytest.mark.parametrize("what", BAD)
async def test_bad_row__fails_alone(ledger: Ledger, what: str) -> None:
    """One bad result in two hundred refused all of them (measured), and for ever if the batch is asked again whole."""
    holdings = _claimed(ledger, 200)
    completing = Completing(ledger.database.worker_url)
    async with completing.running() as gathered:
        asked = [gathered.ask(_report(ledger, h, BAD[what] if n == 137 else "{}")) for n, h in enumerate(holdings)]
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)

    assert isinstance(answers[137], DataRefused)
    assert all(
        isinstance(answer, calls.Reported) and answer.verdict == "accepted"
        for answer in answers
        if answer is not answers[137]
    )
    assert completing.sizes[0] == 200
    assert len(completing.sizes) <= 17  # 1 + 2 for each halving of two hundred
    assert ledger.rows.state(holdings[137].job_id).state == "running"
    assert ledger.worker.complete(holdings[137]).verdict == "accepted"


async def test_locked_row__goes_into_the_next_batches_and_keeps_nobody_back(ledger: Ledger) -> None:
    busy, *others = _claimed(ledger, 5)
    guest = ledger.open()
    guest.begin()
    guest.fence_v1(busy)
    completing = Completing(ledger.database.worker_url)
    async with completing.running() as gathered:
        waiting = gathered.ask(_report(ledger, busy))
        answers = await asyncio.gather(*(gathered.ask(_report(ledger, holding)) for holding in others))
        assert {answer.verdict for answer in answers} == {"accepted"}
        await eventually(_of(lambda: len(completing.sizes) > 3))
        assert not waiting.done()
        guest.commit()

        assert (await waiting).verdict == "accepted"
    assert completing.sizes[0] == 5
    assert set(completing.sizes[1:]) == {1}


async def test_lost_reply__is_asked_again_with_the_same_ids_and_gets_the_same_answer(ledger: Ledger) -> None:
    holdings = _claimed(ledger, 3)
    completing = Completing(ledger.database.worker_url)

    def lose_the_reply() -> None:
        completing.after = None
        raise LedgerUnavailable("the reply was lost")

    completing.after = lose_the_reply
    async with completing.running() as gathered:
        answers = await asyncio.gather(*(gathered.ask(_report(ledger, holding)) for holding in holdings))

    assert completing.sizes == [3, 3]
    assert {(answer.verdict, answer.late) for answer in answers} == {("accepted", False)}
    assert {len(ledger.rows.events(holding.job_id, "succeeded")) for holding in holdings} == {1}


async def test_terminated_backend__is_asked_again_over_a_new_connection(ledger: Ledger) -> None:
    """Its session is ended in the middle of the call."""
    (holding,) = _claimed(ledger, 1)
    blocker = ledger.open("owner")
    blocker.begin()
    blocker.sql("lock table brokerjobs.review, brokerjobs.event in access exclusive mode")
    completing = Completing(ledger.database.worker_url)
    async with completing.running() as gathered:
        waiting = gathered.ask(_report(ledger, holding))
        pid = await eventually(_of(lambda: _blocked_pid(ledger)))
        with psycopg.connect(ledger.database.admin_url, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s)", [pid])
        await eventually(_of(lambda: len(completing.sizes) >= 2))
        blocker.commit()

        assert (await waiting).verdict == "accepted"
    assert len(ledger.rows.events(holding.job_id, "succeeded")) == 1


def _blocked_pid(ledger: Ledger) -> int | None:
    row = ledger.owner.execute(
        "select pid from pg_locks where not granted and relation = 'brokerjobs.event'::regclass"
    ).fetchone()
    return row[0] if row else None


async def test_stopped_server__is_asked_again_until_it_is_back(postgres_factory: PostgresFactory) -> None:
    server = postgres_factory()
    with psycopg.connect(server.url, autocommit=True) as admin:
        for login in ("worker", "producer", "coordinator"):
            admin.execute(f"create role {login} login password '{login}'".encode())
    schema.apply(server.url)
    urls = {kind: replaced(server.url, login=kind, password=kind) for kind in ("worker", "producer", "coordinator")}
    for kind in urls:
        schema.grant(server.url, kind, kind)
    with psycopg.connect(server.url, autocommit=True) as owner:
        clock = LedgerClock(owner)
        place = Place("shop", ("work",))
        worker = Caller(psycopg.connect(urls["worker"], autocommit=True), place, clock)
        producer = Caller(psycopg.connect(urls["producer"], autocommit=True), place, clock)
        data = {"name": "work", **_TERMS, "fingerprint": None}
        worker.fetch(services.register_types("shop", [data], change=False))
        producer.sql("select brokerjobs.submit_v1('shop', 'work', '1', 'k')")
        ((job,),) = producer.sql("select job_id from brokerjobs.find('shop', 'work', 'k')")
        holding = worker.take(job)
    for caller in (worker, producer):
        caller.connection.close()
    completing = Completing(urls["worker"])
    async with completing.running() as gathered:
        await asyncio.to_thread(server.stop)
        waiting = gathered.ask(calls.Report(holding, "{}", clock.now, None))
        await eventually(_of(lambda: len(completing.sizes) >= 2))
        await asyncio.to_thread(server.resume)

        assert (await asyncio.wait_for(waiting, 30)).verdict == "accepted"


_TERMS = {
    "repeatable": True,
    "queue": "default",
    "lease": 30,
    "time_limit": 60,
    "placement_deadline": 60,
    "retry": {"attempts": 5, "elapsed": 86400, "first_delay": 1, "factor": 2, "max_delay": 600},
}


async def test_asker_that_gave_up__is_not_asked_for(ledger: Ledger) -> None:
    given_up, wanted = _claimed(ledger, 2)
    completing = Completing(ledger.database.worker_url)
    asked = completing.gathered.ask(_report(ledger, given_up))
    asked.cancel()
    other = completing.gathered.ask(_report(ledger, wanted))
    async with completing.running():
        assert (await other).verdict == "accepted"

    assert completing.sizes == [1]
    assert ledger.rows.state(given_up.job_id).state == "running"


async def test_unexpected_error__is_told_to_all_of_its_batch_and_ends_nothing(ledger: Ledger) -> None:
    holdings = _claimed(ledger, 3)
    completing = Completing(ledger.database.worker_url)

    async def break_once() -> None:
        completing.before = None
        raise ZeroDivisionError

    completing.before = break_once
    async with completing.running() as gathered:
        told = await asyncio.gather(*(gathered.ask(_report(ledger, h)) for h in holdings), return_exceptions=True)
        assert [type(error) for error in told] == [ZeroDivisionError] * 3

        assert (await gathered.ask(_report(ledger, holdings[0]))).verdict == "accepted"


def _of(condition: Callable[[], Any]) -> Callable[[], Any]:
    async def asked() -> Any:
        return condition()

    return asked
