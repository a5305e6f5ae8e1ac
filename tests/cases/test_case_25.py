"""Case 25: the broker refuses the ring of a retry: the job always has a due time, or a message that will be sent."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from brokerjobs import App, JobContext, RetryPolicy
from brokerjobs.broker.names import route_name
from tests.flow.driving import coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
    from tests.databases import Database

FULL = '{"max-length": 0, "overflow": "reject-publish"}'
QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=50), max_delay=timedelta(milliseconds=50))
STANDING = """
select s.state, s.waiting = 'retry' and s.wait_until is not null,
    exists (select from brokerjobs.outbox o where o.job_id = s.job_id)
  from brokerjobs.job_state s where s.job_id = %s"""


async def test_case_25_a_retry_whose_ring_is_refused_is_never_lost(
    database: Database, namespace: str, node: PrivateRabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    began, may_fail = asyncio.Event(), asyncio.Event()

    @app.job("work", repeatable=True, retry=QUICK)
    async def work(payload: int, ctx: JobContext) -> int:
        if ctx.attempt.number == 1:
            began.set()
            await may_fail.wait()
            raise ConnectionError("the first try")
        return payload

    # A classic queue is full before it looks for a consumer.
    async with (
        flow(app, database, node.url, queue_type="classic") as made,
        coordinating(made),
        made.working(made.worker()),
    ):
        job = await made.submit(work, 7)
        await made.ring(job.id)
        await asyncio.wait_for(began.wait(), 20)
        watching = asyncio.create_task(_standings(database, job.id))
        await _ctl(node, "set_policy", "--apply-to", "queues", namespace, f"^{route_name(namespace, 'default')}$", FULL)
        may_fail.set()

        async def was_refused() -> bool:
            return "a queue took no more" in caplog.text

        await eventually(was_refused, 20)
        assert await made.state(job.id) == "queued"
        await _ctl(node, "clear_policy", namespace)
        record = await made.reached(job.id, "succeeded", 30)
        standings = await watching
    lost = [one for one in standings if one[0] == "queued" and not (one[1] or one[2])]
    assert lost == []
    assert {one[0] for one in standings} == {"running", "queued", "succeeded"}
    first, second = record["attempts"]
    assert (first["failure"]["message"], second["state"]) == ("the first try", "completed")
    assert datetime.fromisoformat(first["report"]["received_at"]) <= datetime.fromisoformat(first["ack_sent_at"])


async def _ctl(node: PrivateRabbitMQ, *arguments: str) -> None:
    await asyncio.to_thread(node.ctl, *arguments)


async def _standings(database: Database, job_id: UUID) -> list[Any]:
    """How the job stood, again and again until its end: each time in one statement, so in one snapshot."""
    seen: list[Any] = []
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        while not seen or seen[-1][0] != "succeeded":
            seen += await (await connection.execute(STANDING, [job_id])).fetchall()
    return seen
