from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
import pytest
from uuid_utils.compat import uuid7

from brokerjobs.broker import names
from brokerjobs.broker.publisher import Publisher
from brokerjobs.coordinator.relay import NAME, Relay
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.errors import BrokerUnavailable
from brokerjobs.ledger import inquiries, services
from tests.coordinator.stage import NOW, PERIODS, Time, arrived, candidacy, process, rung

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.broker.protocol import Outgoing, PublishOutcome
    from tests.coordinator.stage import Stage


@pytest.fixture
def relay(staged: Stage, publisher: Publisher) -> Relay:
    return Relay(staged.coordinator, candidacy(NAME), publisher, PERIODS)


async def test_relay__rings_what_a_submit_left(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    jobs = await staged.submit(3)
    tickets = {str(row["ticket"]) for row in await staged.sql("select ticket from brokerjobs.outbox")}

    assert await relay.run_once() == PERIODS.relay_poll

    messages = await arrived(staged.broker_url, staged.route())
    assert sorted(rung(messages)) == sorted(jobs)
    assert {message.message_id for message in messages} == tickets
    assert {message.type for message in messages} == {names.DOORBELL_TYPE}
    assert await staged.outbox() == 0
    assert await staged.value("select count(*) from brokerjobs.job_state where rung_at is not null") == 3


async def test_relay__rings_once(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    await staged.submit()
    for _ in range(3):
        await relay.run_once()

    assert len(await arrived(staged.broker_url, staged.route())) == 1


async def test_relay__follows_a_full_batch_at_once(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    await staged.submit(5)
    relay = Relay(staged.coordinator, candidacy(NAME), publisher, replace(PERIODS, batch=2))

    assert [await relay.run_once() for _ in range(4)] == [NOW, NOW, PERIODS.relay_poll, PERIODS.relay_poll]
    assert len(await arrived(staged.broker_url, staged.route())) == 5


async def test_relay__takes_nothing_while_another_leads(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    await staged.submit()
    await staged.coordinator.fetch(services.lead(NAME, process("another"), 60))
    relay = Relay(staged.coordinator, candidacy(NAME), publisher, PERIODS)

    assert await relay.run_once() == LED_ELSEWHERE

    assert await staged.value("select taken from brokerjobs.outbox") == 0
    assert await arrived(staged.broker_url, staged.route()) == []


async def test_relay__an_unroutable_message_stops_no_other(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    await staged.register("lost", queue="nowhere")
    unroutable = await staged.submit(5, "lost")
    jobs = await staged.submit(3)
    relay = Relay(staged.coordinator, candidacy(NAME), publisher, replace(PERIODS, batch=4))

    for _ in range(3):
        await relay.run_once()

    assert sorted(rung(await arrived(staged.broker_url, staged.route()))) == sorted(jobs)
    waiting = await staged.sql("select job_id from brokerjobs.outbox")
    assert sorted(row["job_id"] for row in waiting) == sorted(unroutable)


async def test_relay__an_unroutable_message_is_rung_once_its_route_is_there(staged: Stage, relay: Relay) -> None:
    await staged.declare("another")
    (job,) = await staged.submit()
    await relay.run_once()
    await staged.declare()
    await staged.let_holds_run_out()

    await relay.run_once()

    assert rung(await arrived(staged.broker_url, staged.route())) == [job]
    assert await staged.outbox() == 0


async def test_relay__a_refused_message_waits_twice_as_long_each_time(staged: Stage, relay: Relay) -> None:
    await staged.declare("another")
    await staged.submit()
    holds: list[float] = []
    for _ in range(9):
        await relay.run_once()
        holds.append(
            await staged.value(
                "select extract(epoch from hold_until - clock_timestamp())::float from brokerjobs.outbox"
            )
        )
        await staged.let_holds_run_out()

    wanted = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(want - 1 < hold <= want for want, hold in zip(wanted, holds, strict=True)), holds


async def test_relay__a_namespace_without_exchanges_stops_no_other(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    stranger = replace(staged, namespace=f"{staged.namespace}-x")
    await stranger.register()
    await stranger.submit(3)
    jobs = await staged.submit(2)

    await relay.run_once()

    assert sorted(rung(await arrived(staged.broker_url, staged.route()))) == sorted(jobs)
    assert await staged.outbox() == 3


async def test_relay__names_that_no_broker_takes_stop_no_other(
    staged: Stage, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    await staged.declare()
    stranger = replace(staged, namespace="x" * 300)
    await stranger.register()
    await stranger.submit(2)
    jobs = await staged.submit(2)

    for _ in range(2):
        await relay.run_once()
        await staged.let_holds_run_out()

    assert sorted(rung(await arrived(staged.broker_url, staged.route()))) == sorted(jobs)
    assert await staged.outbox() == 2
    assert len([record for record in caplog.records if "cannot be rung" in record.message]) == 1


async def test_relay__rings_a_transaction_that_commits_late(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    async with await psycopg.AsyncConnection.connect(staged.database.producer_url) as late:
        new = inquiries.NewJob(uuid7(), "{}", None, {}, None, None, None)
        batch = inquiries.SubmitBatch(
            staged.namespace, "work", "tester", None, datetime.now(UTC), announced=False, jobs=[new]
        )
        query = inquiries.submit(batch)
        await late.execute(query.sql, query.params)
        others = await staged.submit(3)
        for _ in range(3):
            await relay.run_once()
        assert sorted(rung(await arrived(staged.broker_url, staged.route()))) == sorted(others)
        await late.commit()

    await relay.run_once()

    assert rung(await arrived(staged.broker_url, staged.route())) == [new.id]


async def test_relay__looks_below_its_mark_once_a_minute(staged: Stage, publisher: Publisher) -> None:
    await staged.declare()
    time = Time()
    relay = Relay(staged.coordinator, candidacy(NAME), publisher, PERIODS, time)
    await staged.submit()
    await relay.run_once()
    await staged.submit()
    # As after a move to another server, whose transaction ids are smaller.
    await staged.sql("update brokerjobs.outbox set xid = '1'")

    await relay.run_once()
    assert await staged.outbox() == 1
    time.now += 60

    await relay.run_once()
    assert await staged.outbox() == 0


async def test_relay__tells_of_a_failed_job_without_its_payload(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    (job,) = await staged.submit()
    await staged.report(await staged.claim(job), {"class": "invalid", "type": "InvalidJob", "message": "no such image"})

    await relay.run_once()

    (message,) = await arrived(staged.broker_url, names.dead_queue(staged.namespace))
    body = json.loads(message.body)
    assert message.routing_key == "work"
    assert message.type == names.DEAD_TYPE
    assert message.delivery_mode == 2
    assert body["schema"] == "brokerjobs.job/1"
    assert body["id"] == str(job)
    assert body["state"] == "failed"
    assert body["failure"] == {"class": "invalid", "reason": "no such image"}
    assert [attempt["number"] for attempt in body["attempts"]] == [1]
    assert "payload" not in body
    assert "result" not in body
    assert await staged.outbox() == 0


async def test_relay__tells_of_a_review_by_a_key_of_its_own(staged: Stage, relay: Relay) -> None:
    await staged.declare()
    (job,) = await staged.submit()
    await staged.report(await staged.claim(job), {"class": "unsafe", "type": "UnknownOutcome", "message": "who knows"})

    await relay.run_once()

    (message,) = await arrived(staged.broker_url, names.dead_queue(staged.namespace))
    body = json.loads(message.body)
    assert (message.routing_key, message.type) == ("review.work", names.REVIEW_TYPE)
    assert (body["id"], body["state"]) == (str(job), "review")
    (review,) = body["reviews"]
    assert (review["closed_at"], review["known"]["error"]) == (None, "who knows")
    assert "payload" not in body
    assert await staged.outbox() == 0


async def test_relay__one_that_dies_before_it_marks_rings_twice_and_harms_nothing(
    staged: Stage, publisher: Publisher
) -> None:
    await staged.declare()
    (job,) = await staged.submit()
    dying = Relay(staged.coordinator, candidacy(NAME, 0.001), _Dying(publisher), PERIODS)
    with pytest.raises(_DiedError):
        await dying.run_once()
    await staged.let_holds_run_out()

    await Relay(staged.coordinator, candidacy(NAME), publisher, PERIODS).run_once()

    first, second = await arrived(staged.broker_url, staged.route())
    assert first.message_id == second.message_id
    claimed = await staged.claim(job)
    assert claimed.verdict == "granted"
    assert (await staged.claim(job)).verdict == "held"
    await staged.report(claimed)
    assert (await staged.claim(job)).verdict == "finished"
    assert await staged.value("select count(*) from brokerjobs.attempt") == 1


class _DiedError(Exception):
    pass


class _Dying:
    """Publishes, and ends before anybody hears what became of it."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        await self._publisher.publish(messages)
        raise _DiedError

    async def close(self) -> None:
        await self._publisher.close()


@pytest.fixture
def nowhere() -> str:
    """The URL of a broker that is not there: port 1 is never given to a server of ours."""
    return "amqp://guest:guest@127.0.0.1:1/"


async def test_relay__waits_longer_while_no_broker_answers(staged: Stage, nowhere: str) -> None:
    await staged.submit(8)
    relay = Relay(staged.coordinator, candidacy(NAME), Publisher(nowhere), replace(PERIODS, batch=1))

    delays = [await relay.run_once() for _ in range(5)]

    assert delays == sorted(delays)
    assert delays[0] < delays[-1] == PERIODS.tick
    assert await staged.outbox() == 8


async def test_relay__lets_another_try_after_ten_seconds_without_an_answer(staged: Stage, nowhere: str) -> None:
    time = Time()
    relay = Relay(staged.coordinator, candidacy(NAME), Publisher(nowhere), PERIODS, time)
    await staged.submit()
    await relay.run_once()
    await staged.let_holds_run_out()
    time.now += 9.9
    await relay.run_once()
    await staged.let_holds_run_out()
    time.now += 0.1

    with pytest.raises(BrokerUnavailable):
        await relay.run_once()


async def test_relay__an_answer_ends_the_silence(staged: Stage, publisher: Publisher, nowhere: str) -> None:
    await staged.declare()
    time = Time()
    sender = _Switched(Publisher(nowhere))
    relay = Relay(staged.coordinator, candidacy(NAME), sender, PERIODS, time)
    await staged.submit()
    await relay.run_once()
    sender.now = publisher
    await staged.let_holds_run_out()
    assert await relay.run_once() == PERIODS.relay_poll
    sender.now = Publisher(nowhere)
    time.now += 10
    await staged.submit()

    assert await relay.run_once() > PERIODS.relay_poll


class _Switched:
    """One broker after another."""

    def __init__(self, publisher: Publisher) -> None:
        self.now = publisher

    async def publish(self, messages: Sequence[Outgoing]) -> list[PublishOutcome]:
        return await self.now.publish(messages)

    async def close(self) -> None:
        await self.now.close()
