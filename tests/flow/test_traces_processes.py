"""The traces of jobs whose workers are processes of their own, and disappear: all that a receiver of OTLP has then."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from brokerjobs.client import Client, ClientOptions
from brokerjobs.telemetry.sampler import LinkedParentSampler
from brokerjobs.telemetry.tracing import tracing
from tests.flow.driving import coordinating
from tests.flow.processes import Stage, stage
from tests.flow.proxy import proxied
from tests.flow.tracing import Seen, picture, received
from tests.telemetry.receiving import Receiver, span_exporter
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Database


class Observed:
    """A receiver, and this process's provider that sends to it: the client's and the coordinator's."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.provider = TracerProvider(sampler=LinkedParentSampler(), shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(span_exporter(receiver), schedule_delay_millis=50))
        self.variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def spans(self, *without: str) -> list[Seen]:
        """What was received of jobs, without spans whose names begin so."""
        return [span for span in received(self._receiver.spans()) if not span.name.startswith(without)]

    async def has(self, name: str, count: int) -> None:
        """Waits for so many spans of a name."""

        async def there() -> bool:
            return sum(span.name.startswith(name) for span in self.spans()) >= count

        await eventually(there, 20)

    def everything(self) -> bytes:
        """All that was received."""
        return b"".join(request.SerializeToString() for request in self._receiver.traces)


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Observed]:
    with Receiver() as receiver:
        made = Observed(receiver)
        for name, value in made.variables.items():  # workers have them of this process
            monkeypatch.setenv(name, value)
        tracing.use(made.provider)
        yield made
        tracing.use(None)
        made.provider.shutdown()


def producer(on: Stage) -> Client:
    made = on.made
    return Client(
        ClientOptions(submitted_by="tests", database_url=made.database.producer_url, broker_url=made.broker_url)
    )


async def test_killed_and_stopped_workers__leave_a_complete_picture(
    database: Database, namespace: str, broker_url: str, tmp_path: Path, observed: Observed
) -> None:
    """The first worker is killed, the second one stopped beyond its lease, and reports when the third has won."""
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made), producer(on) as client:
        handle = await client.submit(on.repeatable, ["line:ran", "wait:payload-secret"], key="key-secret")

        async def running(number: int) -> bool:
            attempts = (await on.made.record(handle.id))["attempts"]
            kept = [attempt for attempt in attempts if attempt["traceparent"] is not None]
            return len(on.lines("ran")) == number == len(kept)

        with on.worker("worker-a") as killed:
            await eventually(lambda: running(1), 20)
            killed.kill()
        with on.worker("worker-b") as stopped:
            await eventually(lambda: running(2), 20)
            stopped.signal(signal.SIGSTOP)
            with on.worker("worker-c"):
                await eventually(lambda: running(3), 20)
                on.mark("payload-secret")
                await on.made.reached(handle.id, "succeeded", 20)
                stopped.signal(signal.SIGCONT)
                await observed.has("process", 2)
                await observed.has("expire", 2)
    drawn = picture(observed.spans("send", "ack"))
    for either in (" (lease_lost)", " (ack_lost)"):  # whether renewal or report comes first, and the broker waited
        drawn = drawn.replace(either, "")
    assert drawn == (
        "create repeatable created\n"
        "  ! expire repeatable #1 timed_out lease_expired → create repeatable [creation] → elsewhere [attempt]\n"
        "  ! expire repeatable #2 timed_out lease_expired"
        " → create repeatable [creation] → process repeatable #2 [attempt]\n"
        "  ! process repeatable #2 rejected rejected job_succeeded job_succeeded (report_rejected)"
        " → create repeatable [creation] → elsewhere [previous_attempt]\n"
        "    ! complete repeatable #2 rejected rejected job_succeeded job_succeeded\n"
        "  process repeatable #3 accepted accepted"
        " → create repeatable [creation] → process repeatable #2 [previous_attempt]\n"
        "    complete repeatable #3 accepted accepted"
    )
    assert b"secret" not in observed.everything()


async def test_lost_ack__is_seen_and_its_redelivery_is_no_attempt(
    database: Database, namespace: str, broker_url: str, tmp_path: Path, observed: Observed
) -> None:
    async with (
        stage(database, namespace, broker_url, tmp_path) as on,
        producer(on) as client,
        proxied(broker_url) as proxy,
    ):
        with on.worker(BROKER_URL=proxy.url) as worker:
            handle = await client.submit(on.repeatable, ["touch:began", "wait:go"])
            await on.marked("began")
            proxy.cut()
            on.mark("go")
            await on.made.reached(handle.id, "succeeded", 20)
            proxy.heal()

            async def answered() -> bool:
                events = (await on.made.record(handle.id))["events"]
                return "duplicate_delivery" in [event["kind"] for event in events]

            await eventually(answered, 60)
            await worker.drain()
    assert picture(observed.spans("send")).replace(namespace, "ns") == (
        "create repeatable created\n"
        "  process repeatable #1 accepted accepted (ack_lost) → create repeatable [creation]\n"
        "    complete repeatable #1 accepted accepted\n"
        "    ! ack ns.q.default #1 ack_lost"
    )


async def test_handler_in_a_process__has_its_spans_below_the_attempt(
    database: Database, namespace: str, broker_url: str, tmp_path: Path, observed: Observed
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, producer(on) as client:
        with on.worker() as worker:
            handle = await client.submit(on.pooled, ["span:GET bank"])
            await handle.result(timeout=timedelta(seconds=20))
            await worker.drain()
    assert picture(observed.spans("send", "ack")) == (
        "create pooled created\n"
        "  process pooled #1 accepted accepted → create pooled [creation]\n"
        "    GET bank #1\n"
        "    complete pooled #1 accepted accepted"
    )
