"""Puts the job and the attempt on all spans of a handler, so that one query finds them across traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry.attaching import subject_in

if TYPE_CHECKING:
    from opentelemetry.context import Context


class AttemptSpanProcessor(SpanProcessor):
    """Copies `brokerjobs.job.id` and `brokerjobs.attempt.number` from an attempt to every span below it.

    For a provider of one's own: `provider.add_span_processor(AttemptSpanProcessor())`.
    """

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Adds them, unless the span has a job of its own, as one has that submits another."""
        subject = subject_in(parent_context)
        if subject is not None and a.JOB_ID not in (span.attributes or {}):
            span.set_attributes({a.JOB_ID: str(subject.job_id), a.ATTEMPT_NUMBER: subject.number})

    def on_end(self, span: ReadableSpan) -> None:
        """Nothing is left to be done."""

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002  # nothing waits here
        """Nothing is held."""
        return True
