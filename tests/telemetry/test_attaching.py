"""What a handler's code does is below its attempt: in its task, in a thread, in a child process."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry import context as otel
from opentelemetry import trace

from brokerjobs.telemetry.attaching import apart, current_subject, entered, in_child, suppressed
from brokerjobs.telemetry.tracing import tracing
from tests.telemetry import subjects
from tests.telemetry.receiving import attributes

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span
    from opentelemetry.sdk.trace import TracerProvider

    from tests.telemetry.receiving import Receiver

ROOT = Path(__file__).parents[2]


def below_the_attempt(spans: list[Span]) -> Span:
    """The user's span, which is the attempt's child and has its job and number."""
    process = next(span for span in spans if span.name.startswith("process"))
    users = next(span for span in spans if span.name == "users")
    assert (users.trace_id, users.parent_span_id) == (process.trace_id, process.span_id)
    assert attributes(users.attributes) == {"brokerjobs.job.id": str(subjects.JOB), "brokerjobs.attempt.number": 2}
    return users


async def test_a_task__and_a_thread_that_it_uses(provider: TracerProvider, receiver: Receiver) -> None:
    claimed = subjects.claim(2)
    span = subjects.worker().process(claimed, subjects.delivery())

    def in_thread() -> object:
        with provider.get_tracer("users").start_as_current_span("users"):
            return current_subject()

    async def handler() -> object:
        return await asyncio.to_thread(in_thread)

    variables = contextvars.copy_context()
    task = asyncio.get_running_loop().create_task(handler(), context=entered(variables, claimed, span.context))
    assert await task is claimed
    span.end()

    assert current_subject() is None
    assert not trace.get_current_span().get_span_context().is_valid
    below_the_attempt((provider.force_flush(), receiver.spans())[1])


def test_spans_below_spans__have_the_job_as_well(provider: TracerProvider, receiver: Receiver) -> None:
    claimed = subjects.claim(2)
    span = subjects.worker().process(claimed, subjects.delivery())
    tracer = provider.get_tracer("users")

    def handler() -> None:
        with tracer.start_as_current_span("users"), tracer.start_as_current_span("deeper"):
            tracer.start_span("apart", otel.Context()).end()

    entered(contextvars.copy_context(), claimed, span.context).run(handler)
    span.end()

    spans = (provider.force_flush(), receiver.spans())[1]
    below_the_attempt(spans)
    found = {one.name: attributes(one.attributes) for one in spans}
    assert found["deeper"]["brokerjobs.job.id"] == str(subjects.JOB)
    assert found["apart"] == {}


def test_an_attempt_that_is_not_sampled__has_users_spans_that_are_not(
    provider: TracerProvider, receiver: Receiver
) -> None:
    claimed = subjects.claim(2, subjects.traceparent(1, flags=0))
    span = subjects.worker().process(claimed, subjects.delivery())

    entered(contextvars.copy_context(), claimed, span.context).run(
        lambda: provider.get_tracer("users").start_span("users").end()
    )

    assert (provider.force_flush(), receiver.spans())[1] == []


def test_without_a_provider__the_attempt_is_known_and_no_trace_is() -> None:
    tracing.use(None)
    claimed = subjects.claim()
    span = subjects.worker().process(claimed, subjects.delivery())

    found = entered(contextvars.copy_context(), claimed, span.context).run(
        lambda: (current_subject(), trace.get_current_span().get_span_context().is_valid)
    )

    assert found == (claimed, False)


def test_a_child_process__sets_itself_up_and_its_spans_are_below_the_attempt(
    provider: TracerProvider, receiver: Receiver
) -> None:
    span = subjects.worker().process(subjects.claim(2), subjects.delivery())
    span.end()

    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "tests.telemetry.child", span.traceparent or "", ""]
    done = subprocess.run(arguments, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    provider.force_flush()

    process, users = receiver.spans()
    assert (users.name, users.trace_id, users.parent_span_id) == (
        "GET https://bank.example",
        process.trace_id,
        process.span_id,
    )
    assert attributes(users.attributes) == {"brokerjobs.job.id": str(subjects.JOB), "brokerjobs.attempt.number": 2}
    slow, outside = map(json.loads, done.stdout.splitlines())
    assert (slow["trace_id"], slow["span_id"]) == (users.trace_id.hex(), users.span_id.hex())
    assert (slow["job_id"], slow["attempt"], slow["worker"]) == (str(subjects.JOB), 2, "worker-a")
    assert "trace_id" not in outside
    assert "job_id" not in outside


def test_in_child__keeps_the_state_of_vendors_and_leaves_nothing_behind() -> None:
    with in_child(subjects.claim(), subjects.traceparent(3), "vendor=a"):
        context = trace.get_current_span().get_span_context()
        assert (context.trace_id, context.is_remote) == (3, True)
        assert context.trace_state.to_header() == "vendor=a"
    with in_child(subjects.claim(), None):
        assert not trace.get_current_span().get_span_context().is_valid
        assert current_subject() == subjects.claim()

    assert current_subject() is None
    assert not trace.get_current_span().get_span_context().is_valid


def test_suppressed__is_what_contribs_instrumentations_ask_for(provider: TracerProvider) -> None:
    """`opentelemetry.instrumentation.utils.is_instrumentation_enabled` reads this key, and not only the API's own."""
    with suppressed():
        assert otel.get_value("suppress_instrumentation") is True
    assert otel.get_value("suppress_instrumentation") is None

    with provider.get_tracer("web").start_as_current_span("serve"):
        loops = apart(contextvars.copy_context())
    assert loops.run(otel.get_value, "suppress_instrumentation") is True
    assert not loops.run(trace.get_current_span).get_span_context().is_valid


def test_contexts__of_attempts_are_their_own(provider: TracerProvider) -> None:
    worker = subjects.worker()
    seen: dict[int, int] = {}
    started = threading.Barrier(2, timeout=5)

    def run(number: int) -> None:
        started.wait()
        subject = current_subject()
        assert subject is not None
        seen[number] = subject.number

    threads: list[threading.Thread] = []
    for number in (1, 2):
        claimed = subjects.claim(number)
        span = worker.process(claimed, subjects.delivery())
        context = entered(contextvars.copy_context(), claimed, span.context)
        threads.append(threading.Thread(target=context.run, args=(run, number)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert seen == {1: 1, 2: 2}
