"""Contexts: that of an attempt for the code of its handler, wherever it runs, and one in which others trace nothing."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, cast

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import Context

from brokerjobs.telemetry.traceparents import parsed

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Generator

    from brokerjobs.telemetry.shapes import Subject

# By this key the instrumentations of OpenTelemetry's contrib packages ask whether they shall be silent.
_SUPPRESSED: Final = "suppress_instrumentation"
_SUBJECT: Final = "brokerjobs-attempt"


_current: ContextVar[Subject | None] = ContextVar("brokerjobs_attempt", default=None)


def current_subject() -> Subject | None:
    """The attempt that this code runs for, if it runs in a handler's context."""
    return _current.get()


def subject_in(context: Context | None) -> Subject | None:
    """The attempt that a trace context belongs to; None: the current one."""
    return cast("Subject | None", otel.get_value(_SUBJECT, context))


def with_subject(context: Context, subject: Subject) -> Context:
    """The trace context with its attempt."""
    return otel.set_value(_SUBJECT, subject, context)


def entered(variables: contextvars.Context, subject: Subject, context: Context | None) -> contextvars.Context:
    """A copy of `variables` for the task or the thread of an attempt; `context` is its trace context, if it has one."""
    copy = variables.copy()
    copy.run(_current.set, subject)
    if context is not None:
        copy.run(otel.attach, context)
    return copy


@contextmanager
def in_child(subject: Subject, traceparent: str | None, tracestate: str | None = None) -> Generator[None]:
    """Makes what runs inside, in a child process, part of the attempt whose context its worker has told."""
    variable = _current.set(subject)
    span = parsed(traceparent, tracestate)
    token = None
    if span is not None:
        token = otel.attach(with_subject(trace.set_span_in_context(trace.NonRecordingSpan(span)), subject))
    try:
        yield
    finally:
        if token is not None:
            otel.detach(token)
        _current.reset(variable)


def apart(variables: contextvars.Context) -> contextvars.Context:
    """A copy of `variables` for the loops of a worker: in no trace, and in which instrumentations are silent."""
    copy = variables.copy()
    copy.run(otel.attach, otel.set_value(_SUPPRESSED, True, Context()))  # noqa: FBT003  # the API's own signature
    return copy


@contextmanager
def suppressed() -> Generator[None]:
    """Lets instrumentations be silent about what runs inside: it has spans of ours, or is worth none."""
    token = otel.attach(otel.set_value(_SUPPRESSED, True))  # noqa: FBT003  # the API's own signature
    try:
        yield
    finally:
        otel.detach(token)
