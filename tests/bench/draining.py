"""Jobs drained a second by one worker process, and what a bare aio-pika consumer acknowledges meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aio_pika
import psycopg
import uvloop
from uuid_utils.compat import uuid7

from tests.bench.stage import PREFETCH

if TYPE_CHECKING:
    from tests.bench.stage import Shape, Stage

_QUERY = (
    "select extract(epoch from max(s.finished_at) - min(a.claimed_at)) from brokerjobs.job j"
    " join brokerjobs.job_state s on s.job_id = j.id join brokerjobs.attempt a on a.job_id = j.id"
    " where j.namespace = %s"
)


async def ours(stage: Stage, shape: Shape, jobs: int, *, sampled_one_in: int | None = None, **variables: str) -> float:
    """Jobs a second, from the first claim to the last accepted result, by the ledger's clock.

    `sampled_one_in`: every job has a trace context, of which so few are sampled; `variables` are the worker's.
    """
    namespace = await stage.namespace()
    ids = await stage.fill(namespace, jobs, sampled_one_in=sampled_one_in)
    with stage.worker(namespace, shape, variables=variables) as worker:
        await stage.done(ids, worker)
    return jobs / await seconds_of(stage, namespace)


async def seconds_of(stage: Stage, namespace: str) -> float:
    """From the first claim to the last result of a namespace, by the ledger's clock."""
    async with await psycopg.AsyncConnection.connect(stage.database_url) as connection:
        row = await (await connection.execute(_QUERY, [namespace])).fetchone()
    return float((row or (0,))[0])


def bare(broker_url: str, messages: int, *, fast_loop: bool) -> float:
    """Messages a second that a plain aio-pika consumer acknowledges, on asyncio's own event loop or on uvloop's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if fast_loop else None) as runner:
        return runner.run(_consume(broker_url, messages))


async def _consume(broker_url: str, messages: int) -> float:
    """Messages a second, from the first to the last."""
    async with await aio_pika.connect(broker_url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        name = f"bare-{uuid7().hex[-8:]}"
        queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        body = b'{"v":1,"job":"00000000-0000-0000-0000-000000000000"}'
        for first in range(0, messages, 500):
            sends = [
                channel.default_exchange.publish(
                    aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), name
                )
                for _ in range(min(500, messages - first))
            ]
            await asyncio.gather(*sends)
        times: list[float] = []
        done = asyncio.Event()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await message.ack()
            times.append(time.perf_counter())
            if len(times) == messages:
                done.set()

        await queue.consume(take)
        await asyncio.wait_for(done.wait(), 300)
        await queue.delete(if_unused=False, if_empty=False)
    return messages / (times[-1] - times[0])
