"""The fields of a log line about an attempt, for code that does not run in its context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.telemetry.traceparents import parsed

if TYPE_CHECKING:
    from brokerjobs.telemetry.events import Event
    from brokerjobs.telemetry.shapes import Subject


def facts(event: Event, subject: Subject, traceparent: str | None = None) -> dict[str, object]:
    """What `extra=` takes: the event by its name, the attempt that it happened to, and its span if it is known."""
    said: dict[str, object] = {
        "event": event.value,
        "job_id": str(subject.job_id),
        "job_type": subject.type,
        "attempt_id": str(subject.attempt_id),
        "attempt": subject.number,
        "fencing_number": str(subject.fencing_number),
    }
    if (span := parsed(traceparent)) is not None:
        said["trace_id"] = f"{span.trace_id:032x}"
        said["span_id"] = f"{span.span_id:016x}"
        said["trace_flags"] = f"{span.trace_flags:02x}"
    return said
