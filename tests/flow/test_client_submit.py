"""Submissions in the client's own transaction: what is recorded, what is refused, and what is rung."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from uuid_utils.compat import uuid7

from brokerjobs import (
    App,
    IdempotencyConflict,
    InvalidPayload,
    PayloadTooLarge,
    Submission,
    SubmissionRefused,
    UnknownJobType,
    Waiting,
    needs,
)
from brokerjobs.ledger import inquiries
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.rules.needs import as_data
from tests.flow.producing import Charge, Receipt, Shop, shop
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from tests.databases import Database


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


async def test_submit__records_who_what_and_when(made: Shop) -> None:
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(cents=7), key="order-1", tags={"order": "1"})
        record = await handle.record()
    assert handle.id == record.id
    assert record.id.version == 7
    assert (record.submitted_by, record.key, record.tags) == ("orders-api", "order-1", {"order": "1"})
    assert record.data["payload"] == {"account": "a-1", "cents": 7}
    assert record.data["payload_checked"]
    assert record.data["traceparent"] is None
    assert record.deadline is None


async def test_submit__with_a_priority_and_needs_is_rung_in_its_lane(made: Shop) -> None:
    added = [needs.limit("smtp", 2), needs.exclusive("account:{account}")]
    async with made.client() as client:
        first, second = await asyncio.gather(
            client.submit(made.charge, Charge(), priority="low", needs=added), client.submit(made.charge, Charge())
        )
        (third,) = await client.submit_many(made.charge, [Submission(Charge(), priority="high")])
        records = [(await one.record()).data for one in (first, second, third)]
        with pytest.raises(SubmissionRefused, match="asks for the payload's field owner, which is missing") as refused:
            await client.submit_many(
                made.charge, [Submission(Charge()), Submission(Charge(), needs=[needs.exclusive("{owner}")])]
            )
    assert refused.value.__notes__ == ["submission 2 of 2; none of them was recorded"]
    assert [one["route"] for one in records] == [f"{made.route}:low", made.route, f"{made.route}:high"]
    assert [one["priority"] for one in records] == ["low", "normal", "high"]
    assert records[0]["resources"] == [{"name": "account:a-1", "limit": 1}, {"name": "smtp", "limit": 2}]
    assert (records[0]["added_needs"], records[1]["added_needs"]) == (as_data(added), [])


async def test_submit__is_rung_behind_the_commit(made: Shop) -> None:
    async with made.client() as client:
        handles = [await client.submit(made.charge, Charge()) for _ in range(3)]
        await made.all_announced()
    assert await made.arrived(3) == {handle.id for handle in handles}
    assert len(await made.rows("select from brokerjobs.job_state where rung_at is not null")) == 3


async def test_submit__fifty_in_flight_share_commits(made: Shop) -> None:
    async with made.client() as client:
        handles = await asyncio.gather(*(client.submit(made.charge, Charge(cents=cents)) for cents in range(50)))
        for cents, handle in enumerate(handles):
            assert (await handle.record()).data["payload"]["cents"] == cents
        await made.all_announced()
    assert len({handle.id for handle in handles}) == 50
    (commits,) = await made.rows("select count(distinct xmin::text) as count from brokerjobs.job")
    assert commits["count"] <= 3


async def test_submit__again_and_again_takes_no_more_tasks(made: Shop) -> None:
    async with made.client() as client:
        await client.submit(made.charge, Charge())
        await made.all_announced()
        before = len(asyncio.all_tasks())
        for _ in range(20):
            await client.submit(made.charge, Charge())
        await made.all_announced()
        assert len(asyncio.all_tasks()) == before


async def test_submit__fifty_times_the_same_key_is_one_job(made: Shop) -> None:
    async with made.client() as one, made.client("billing") as other:
        clients = [one, other] * 25
        handles = await asyncio.gather(*(client.submit(made.charge, Charge(), key="order-1") for client in clients))
    assert len({handle.id for handle in handles}) == 1
    assert await made.count("job") == 1


async def test_submit_many__a_thousand_are_in_order_and_one_transaction(made: Shop) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents}") for cents in range(1_000)]
    async with made.client() as client:
        handles = await client.submit_many(made.charge, many)
        await made.all_announced()
        assert [(await handles[place].record()).key for place in (0, 999)] == ["order-0", "order-999"]
    assert await made.arrived(1_000) == {handle.id for handle in handles}
    (commits,) = await made.rows("select count(distinct xmin::text) as count from brokerjobs.job")
    assert commits["count"] == 1


async def test_submit_many__nothing(made: Shop) -> None:
    async with made.client() as client:
        assert await client.submit_many(made.charge, []) == []


async def test_submit_many__are_recorded_or_none(made: Shop) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents}") for cents in range(300)]
    async with made.client("billing") as billing, made.client() as client:
        first = await billing.submit(made.charge, Charge(cents=-1), key="order-250")
        with pytest.raises(IdempotencyConflict) as refused:
            await client.submit_many(made.charge, many)
        assert await made.count("job") == await made.count("idempotency_key") == 1
        handles = await client.submit_many(made.charge, many[:250])
    assert refused.value.job_id == first.id
    assert refused.value.__notes__ == ["submission 251 of 300; none of them was recorded"]
    assert len(handles) == 250


async def test_submit_many__of_the_same_keys_in_any_order_do_not_deadlock(made: Shop) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents:03}") for cents in range(400)]
    async with made.client() as one, made.client("billing") as other:
        forth, back = await asyncio.gather(
            one.submit_many(made.charge, many), other.submit_many(made.charge, many[::-1])
        )
    assert [handle.id for handle in forth] == [handle.id for handle in back[::-1]]
    assert await made.count("job") == 400
    (deadlocks,) = await made.rows("select deadlocks from pg_stat_database where datname = current_database()")
    assert deadlocks["deadlocks"] == 0


async def test_submit__larger_than_a_statement_goes_in_several(made: Shop) -> None:
    many = [Submission(Charge(account="x" * 200_000)) for _ in range(12)]
    async with made.client() as client:
        assert len(await client.submit_many(made.charge, many)) == 12
        handles = await asyncio.gather(*(client.submit(made.charge, one.payload) for one in many))
    assert len({handle.id for handle in handles}) == 12
    assert await made.count("job") == 24


async def test_key__same_payload_is_the_same_job(made: Shop) -> None:
    async with made.client() as client:
        first = await client.submit(made.charge, Charge(), key="order-1")
        again = await client.submit(made.charge, Charge(), key="order-1")
        found = await client.find(made.charge, key="order-1")
        assert found is not None
        assert first.id == again.id == found.id
        assert await client.find(made.charge, key="order-2") is None
    assert await made.count("job") == 1


async def test_key__other_payload_is_a_conflict_that_names_both_submitters(made: Shop) -> None:
    async with made.client("billing") as billing, made.client() as client:
        first = await billing.submit(made.charge, Charge(cents=1), key="order-1")
        with pytest.raises(IdempotencyConflict) as refused:
            await client.submit(made.charge, Charge(cents=2), key="order-1")
    assert refused.value.job_id == first.id
    assert (refused.value.first_submitted_by, refused.value.submitted_by) == ("billing", "orders-api")
    assert refused.value.key == "order-1"


async def test_refused__spoils_no_other_of_its_commit(made: Shop) -> None:
    async with made.client() as client:
        await client.submit(made.charge, Charge(cents=-1), key="order-7")
        answers = await asyncio.gather(
            *(client.submit(made.charge, Charge(cents=cents), key=f"order-{cents}") for cents in range(20)),
            return_exceptions=True,
        )
    wrong = [place for place, answer in enumerate(answers) if isinstance(answer, Exception)]
    assert wrong == [7]
    assert await made.count("job") == 20


async def test_unknown_type__names_the_command(made: Shop) -> None:
    unknown = App(made.made.app.namespace).job_type("payment.refund", Charge, Receipt, repeatable=True)
    async with made.client() as client:
        with pytest.raises(UnknownJobType, match=r"brokerjobs setup module:app"):
            await client.submit(unknown, Charge())
        with pytest.raises(UnknownJobType):
            await client.submit_many(unknown, [Submission(Charge())])


async def test_payload__is_refused_before_anything_is_sent(made: Shop) -> None:
    refuse_connections = "postgresql://nobody@127.0.0.1:1/none"
    async with made.client(database_url=refuse_connections) as client:
        with pytest.raises(InvalidPayload) as invalid:
            await client.submit(made.charge, Charge(account="\x00"))
        with pytest.raises(PayloadTooLarge) as large:
            await client.submit(made.charge, Charge(account="x" * 262_144))
        with pytest.raises(InvalidPayload) as placed:
            await client.submit_many(made.charge, [Submission(Charge()), Submission(Charge(account="\x00"))])
    assert invalid.value.path == "account"
    assert large.value.excess == 26
    assert placed.value.__notes__ == ["submission 2 of 2; none of them was recorded"]


async def test_payload__over_the_ledgers_own_limit_is_too_large(made: Shop) -> None:
    await made.execute("update brokerjobs.job_type set payload_limit = 10")
    async with made.client() as client:
        with pytest.raises(PayloadTooLarge) as refused:
            await client.submit(made.charge, Charge())
    assert (refused.value.size, refused.value.limit) == (29, 10)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({"deadline": timedelta(seconds=-1)}, "the deadline has passed"),
        ({"deadline": datetime(2020, 1, 1, tzinfo=UTC)}, "the deadline has passed"),
        ({"deadline": timedelta(days=367)}, "the deadline is more than a year ahead"),
        ({"not_before": timedelta.max}, "not_before is more than a year ahead"),
    ],
)
async def test_time__that_cannot_be_is_refused_by_the_ledger(made: Shop, times: dict[str, Any], problem: str) -> None:
    async with made.client() as client:
        with pytest.raises(SubmissionRefused, match=problem):
            await client.submit(made.charge, Charge(), **times)
    assert await made.count("job") == 0


async def test_not_before__waits_for_its_time_and_is_not_rung(made: Shop) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    async with made.client() as client:
        handle = await client.submit(made.charge, Charge(), not_before=at)
        status = await handle.status()
        assert not await handle.announce()
    assert (status.waiting, status.until) == (Waiting.SCHEDULE, at)
    assert await made.count("outbox") == 0


async def test_timedelta__counts_from_the_ledgers_clock(made: Shop) -> None:
    """This process's clock decides nothing: here it is three days behind."""
    await made.execute(
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile"
        " as $$ select clock_timestamp() + interval '3 days' $$"
    )
    async with made.client() as client:
        handle = await client.submit(
            made.charge, Charge(), not_before=timedelta(hours=1), deadline=timedelta(hours=2, microseconds=1)
        )
        record = await handle.record()
    assert record.not_before == record.submitted_at + timedelta(hours=1)
    assert record.deadline == record.submitted_at + timedelta(hours=2, microseconds=1)
    assert record.submitted_at > datetime.now(UTC) + timedelta(days=2)


async def test_trace_context__travels_with_the_job(made: Shop) -> None:
    context = SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with made.client() as client:
        with trace.use_span(NonRecordingSpan(context)):
            handle = await client.submit(made.charge, Charge())
        record = await handle.record()
    assert record.data["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"


async def test_cancelled_asker__does_not_take_its_job_or_the_others_along(made: Shop) -> None:
    async with made.client() as client:
        askers = [asyncio.create_task(client.submit(made.charge, Charge(cents=cents))) for cents in range(20)]
        await asyncio.sleep(0)  # so that all of them have asked
        askers[0].cancel()
        askers[10].cancel()
        answers = await asyncio.gather(*askers, return_exceptions=True)
        await made.all_announced()
    assert [place for place, answer in enumerate(answers) if isinstance(answer, BaseException)] == [0, 10]
    assert 18 <= await made.count("job") <= 20


def _batch(made: Shop, job_id: UUID, cents: int = 1, key: str | None = None) -> inquiries.SubmitBatch:
    payload = made.charge.encode_payload(Charge(cents=cents)).decode()
    return inquiries.SubmitBatch(
        namespace=made.charge.namespace,
        type=made.charge.name,
        submitted_by="orders-api",
        fingerprint=made.charge.fingerprint,
        observed_at=datetime.now(UTC),
        announced=True,
        jobs=[inquiries.NewJob(job_id, payload, key, {}, None, timedelta(hours=1), None)],
    )


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_same_id__asked_again_is_the_same_job(made: Shop, key: str | None) -> None:
    job_id = uuid7()
    connection = AsyncLedgerConnection(ConnectOptions(made.database.producer_url))
    (first,) = await connection.fetch(inquiries.submit(_batch(made, job_id, key=key)))
    (again,) = await connection.fetch(inquiries.submit(_batch(made, job_id, key=key)))
    (other,) = await connection.fetch(inquiries.submit(_batch(made, job_id, cents=2, key=key)))
    await connection.close()
    assert (first.verdict, first.job_id) == (again.verdict, again.job_id) == ("created", job_id)
    assert first.ticket is not None
    assert again.ticket is None, "the relay rings it"
    assert other.verdict == "invalid"
    for table in ("job", "job_state", "event", "outbox"):
        assert await made.count(table) == 1


async def test_same_id__asked_again_while_the_first_is_being_committed_is_the_same_job(made: Shop) -> None:
    """The reply was lost with the connection, and the server has not finished the first statement yet."""
    job_id = uuid7()
    slow, fast = (AsyncLedgerConnection(ConnectOptions(made.database.producer_url)) for _ in range(2))
    submitted = asyncio.Event()

    async def first(fetch: Any) -> Any:
        (row,) = await fetch(inquiries.submit(_batch(made, job_id)))
        submitted.set()
        await eventually(_a_lock_is_waited_for)
        return row

    async def _a_lock_is_waited_for() -> bool:
        return bool(await made.rows("select from pg_locks where not granted"))

    async with asyncio.TaskGroup() as group:
        one = group.create_task(slow.in_transaction(first))
        await submitted.wait()
        two = group.create_task(fast.fetch(inquiries.submit(_batch(made, job_id))))
    assert one.result().verdict == two.result()[0].verdict == "created"
    assert await made.count("job") == await made.count("outbox") == 1
    await slow.close()
    await fast.close()
