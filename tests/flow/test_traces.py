"""The traces of jobs in one process: what is below what, what has a link to what, and what is nowhere."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pydantic import BaseModel
from uuid_utils.compat import uuid7

from brokerjobs import App, IdempotencyConflict, InvalidPayload, RetryPolicy, Submission
from brokerjobs.client import Client, ClientOptions, SyncClient
from brokerjobs.ledger import calls, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker.leases import LeaseKeeper
from tests.flow.driving import Flow, coordinating, flow
from tests.flow.tracing import Seen, Traced, picture
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.context import JobContext
    from brokerjobs.worker.attempt import Attempt
    from tests.databases import Database

QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))


class Order(BaseModel):
    secret: str = "payload-secret"


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    tracing.use(made.provider)
    yield made
    tracing.use(None)
    made.provider.shutdown()


def producer(made: Flow) -> Client:
    return Client(options(made))


def options(made: Flow) -> ClientOptions:
    return ClientOptions(submitted_by="orders", database_url=made.database.producer_url, broker_url=made.broker_url)


def without(spans: list[Seen], *names: str) -> list[Seen]:
    return [span for span in spans if not span.name.startswith(names)]


async def ended(traced: Traced, count: int, name: str = "process") -> None:
    """Waits until so many attempts' spans have ended: after their acknowledgement, which nobody waits for."""

    async def there() -> bool:
        return sum(span.name.startswith(name) for span in traced.spans) >= count

    await eventually(there)


async def test_success__is_one_trace_from_submission_to_acknowledgement(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)

    @app.job("pay", repeatable=True)
    async def pay(order: Order) -> None: ...

    async with flow(app, database, broker_url) as made:
        async with made.working(made.worker()), producer(made) as client:
            with traced.provider.get_tracer("users").start_as_current_span("POST /orders"):
                handle = await client.submit(pay, Order(), key="key-secret", tags={"tag": "tag-secret"})
            await handle.result(timeout=timedelta(seconds=10))
            await ended(traced, 1)
            await ended(traced, 1, "send")
        record = await made.record(handle.id)
    assert picture(traced.spans).replace(namespace, "ns") == (
        "POST /orders\n"
        "  create pay created\n"
        "    process pay #1 accepted accepted → create pay [creation]\n"
        "      complete pay #1 accepted accepted\n"
        "      ack ns.q.default #1\n"
        "send ns.jobs → create pay [creation]"
    )
    created = next(span for span in traced.spans if span.name == "create pay")
    assert record["traceparent"].startswith(f"00-{created.trace:032x}-{created.id:016x}-")
    process = next(span for span in traced.spans if span.name == "process pay")
    assert record["attempts"][0]["traceparent"].startswith(f"00-{process.trace:032x}-{process.id:016x}-")
    for secret in ("payload-secret", "key-secret", "tag-secret"):
        assert secret not in traced.everything()


async def test_failures__are_attempts_linked_each_to_the_one_before(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)

    @app.job("pay", repeatable=True, retry=QUICK)
    async def pay(order: Order, ctx: JobContext) -> None:
        if ctx.attempt.number < 3:
            raise ConnectionError(order.secret)

    async with (
        flow(app, database, broker_url) as made,
        coordinating(made),
        producer(made) as client,
        made.working(made.worker()),
    ):
        handle = await client.submit(pay, Order())
        await handle.result(timeout=timedelta(seconds=20))
        await ended(traced, 3)
    assert picture(without(traced.spans, "send", "ack")) == (
        "create pay created\n"
        "  ! process pay #1 retry recorded ConnectionError → create pay [creation]\n"
        "    fail pay #1 retry recorded\n"
        "  ! process pay #2 retry recorded ConnectionError"
        " → create pay [creation] → process pay #1 [previous_attempt]\n"
        "    fail pay #2 retry recorded\n"
        "  process pay #3 accepted accepted → create pay [creation] → process pay #2 [previous_attempt]\n"
        "    complete pay #3 accepted accepted"
    )
    assert "payload-secret" not in traced.everything()


async def test_review_and_cancel__are_outcomes(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)
    began = asyncio.Event()

    @app.job("once", repeatable=False)
    async def once(order: Order) -> None:
        raise RuntimeError(order.secret)

    @app.job("slow", repeatable=True)
    async def slow(order: Order) -> None:
        began.set()
        await asyncio.sleep(60)

    async with (
        flow(app, database, broker_url) as made,
        producer(made) as client,
        made.working(made.worker(renewal=timedelta(milliseconds=100))),
    ):
        reviewed = await client.submit(once, Order())
        await made.reached(reviewed.id, "review")
        cancelled = await client.submit(slow, Order())
        await began.wait()
        await made.cancel(cancelled.id)
        await made.reached(cancelled.id, "cancelled")
        await ended(traced, 2)
    assert picture(without(traced.spans, "send", "ack")) == (
        "create once created\n"
        "  ! process once #1 review recorded RuntimeError → create once [creation]\n"
        "    fail once #1 review recorded\n"
        "create slow created\n"
        "  process slow #1 cancelled recorded (stop_told) → create slow [creation]\n"
        "    release slow #1 cancelled recorded"
    )


def unwatched(keeper: LeaseKeeper, attempt: Attempt) -> None:
    """Keeps nothing."""


@pytest.mark.parametrize("by", ["reaper", "claim"])
async def test_lost_lease__is_a_span_of_whoever_gave_it_up(  # noqa: PLR0917  # fixtures
    database: Database, namespace: str, broker_url: str, traced: Traced, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Of a worker that never renews; what its first handler returns late is evidence."""
    monkeypatch.setattr(LeaseKeeper, "watch", unwatched)
    app = App(namespace)
    held, go = threading.Event(), threading.Event()

    @app.job("pay", repeatable=True, retry=QUICK, lease=timedelta(seconds=1))
    def pay(order: Order) -> None:
        if not held.is_set():
            held.set()
            go.wait(20)

    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(flow(app, database, broker_url))
        client = await stack.enter_async_context(producer(made))
        if by == "reaper":
            await stack.enter_async_context(coordinating(made))
        await stack.enter_async_context(made.working(made.worker()))
        reaping = AsyncLedgerConnection(ConnectOptions(database.coordinator_url))
        stack.push_async_callback(reaping.close)
        process = calls.ProcessIdentity(uuid7(), "reaper-a", "host", 1)
        handle = await client.submit(pay, Order())

        async def succeeded() -> bool:
            if by == "claim" and held.is_set():  # there is a reaper, which does nothing but say so
                await reaping.fetch(services.lead("reaper", process, 4.0))
                await made.ring(handle.id)
            return await made.state(handle.id) == "succeeded"

        await eventually(succeeded, 20)
        go.set()
        await ended(traced, 2)
    assert picture(without(traced.spans, "send", "ack")) == (
        "create pay created\n"
        "  ! expire pay #1 timed_out lease_expired → create pay [creation] → process pay #1 [attempt]\n"
        "  ! process pay #1 rejected rejected job_succeeded job_succeeded (report_rejected) → create pay [creation]\n"
        "    ! complete pay #1 rejected rejected job_succeeded job_succeeded\n"
        "  process pay #2 accepted accepted → create pay [creation] → process pay #1 [previous_attempt]\n"
        "    complete pay #2 accepted accepted"
    )


async def test_users_spans__are_children_of_the_attempt_in_tasks_and_threads(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)
    users = traced.provider.get_tracer("users")

    @app.job("task", repeatable=True)
    async def in_task(order: Order) -> None:
        with users.start_as_current_span("GET bank"):
            await asyncio.sleep(0)

    @app.job("thread", repeatable=True)
    def in_thread(order: Order) -> None:
        users.start_span("GET bank").end()

    async with flow(app, database, broker_url) as made, producer(made) as client:
        # A span that is current where the worker is started is nobody's parent.
        with users.start_as_current_span("main"):
            async with made.working(made.worker()):
                for job_type in (in_task, in_thread):
                    handle = await client.submit(job_type, Order())
                    await handle.result(timeout=timedelta(seconds=10))
                await ended(traced, 2)
    spans = {span.id: span for span in traced.spans}
    found = [span for span in spans.values() if span.name == "GET bank"]
    assert [spans[span.parent].name for span in found] == ["process task", "process thread"]
    for span in found:
        assert span.facts[a.JOB_ID] == spans[span.parent].facts[a.JOB_ID]
        assert span.facts[a.ATTEMPT_NUMBER] == 1


async def test_submissions__have_a_span_each_also_in_one_batch_and_in_the_callers_transaction(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)
    pay = app.job_type("pay", Order, type(None), repeatable=True)
    users = traced.provider.get_tracer("users")
    async with flow(app, database, broker_url) as made, producer(made) as client:
        with users.start_as_current_span("many"):
            many = await client.submit_many(pay, [Submission(Order(), key=f"key-secret-{n}") for n in range(3)])
        with users.start_as_current_span("again"):
            assert (await client.submit(pay, Order(), key="key-secret-0")).id == many[0].id
            with pytest.raises(IdempotencyConflict):
                await client.submit(pay, Order(secret="another"), key="key-secret-0")
            with pytest.raises(InvalidPayload):
                await client.submit(pay, Order.model_construct(secret=5))  # type: ignore[arg-type]  # what a caller may do
        with users.start_as_current_span("within"):
            await asyncio.to_thread(submit_within, made, pay)
        records = [await made.record(one.id) for one in many]
    drawn = picture(without(traced.spans, "send"))
    assert drawn == (
        "many\n  create pay created\n  create pay created\n  create pay created\n"
        "again\n  create pay existing\n  ! create pay IdempotencyConflict\n"
        "within\n  create pay created"
    )
    created = [span for span in traced.spans if span.name == "create pay"][:3]
    assert {one.facts[a.JOB_ID] for one in created} == {str(one.id) for one in many}
    assert len({record["traceparent"] for record in records}) == 3
    assert "key-secret" not in traced.everything()


def submit_within(made: Flow, pay: Any) -> None:
    import psycopg  # noqa: PLC0415  # as a caller has it

    with SyncClient(options(made)) as client, psycopg.connect(made.database.producer_url) as caller:
        client.submit(pay, Order(), within=caller)


async def test_relay__links_its_batch_to_each_creation(
    database: Database, namespace: str, broker_url: str, traced: Traced
) -> None:
    app = App(namespace)
    pay = app.job_type("pay", Order, type(None), repeatable=True)
    contexts = [SpanContext(5, number, is_remote=True, trace_flags=TraceFlags(1)) for number in (1, 2, 3)]
    async with flow(app, database, broker_url) as made:
        for one in contexts:
            await made.submit(pay, Order(), traceparent=f"00-{one.trace_id:032x}-{one.span_id:016x}-01")
        async with coordinating(made):

            async def all_sent() -> bool:
                return sum(len(span.links) for span in traced.spans if span.name.startswith("send")) == 3

            await eventually(all_sent)
    linked = [link for span in traced.spans if span.name.startswith("send") for link in span.links]
    assert sorted(linked) == [(1, "creation"), (2, "creation"), (3, "creation")]


async def test_without_a_provider__the_callers_context_is_stored_and_nothing_of_the_attempts(
    database: Database, namespace: str, broker_url: str
) -> None:
    assert tracing.look() is None
    app = App(namespace)
    seen: list[SpanContext] = []

    @app.job("pay", repeatable=True)
    async def pay(order: Order) -> None:
        seen.append(trace.get_current_span().get_span_context())

    callers = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    async with flow(app, database, broker_url) as made, producer(made) as client:
        async with made.working(made.worker()):
            with trace.use_span(NonRecordingSpan(callers)):
                handle = await client.submit(pay, Order())
            await handle.result(timeout=timedelta(seconds=10))
        record = await made.record(handle.id)
    assert record["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert [attempt["traceparent"] for attempt in record["attempts"]] == [None]
    assert [context.is_valid for context in seen] == [False]
