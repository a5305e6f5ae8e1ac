"""Spans of whole flows: taken in this process, and drawn as text that tests compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry.processors import AttemptSpanProcessor
from brokerjobs.telemetry.sampler import LinkedParentSampler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Exported
    from opentelemetry.sdk.trace import ReadableSpan

_SHOWN = (a.OUTCOME, a.VERDICT, a.REASON, a.ERROR_TYPE)


class Traced:
    """Takes every span of this process, as soon as it has ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=LinkedParentSampler(), shutdown_on_exit=False)
        self.provider.add_span_processor(AttemptSpanProcessor())
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[Seen]:
        """All that have ended."""
        return [_seen(span) for span in self._exporter.get_finished_spans()]

    def everything(self) -> str:
        """All that would be exported, as text."""
        return "\n".join(span.to_json() for span in self._exporter.get_finished_spans())


@dataclass
class Seen:
    """A span, whoever exported it."""

    name: str
    trace: int
    id: int
    parent: int
    began: int
    facts: dict[str, Any]
    links: list[tuple[int, str]]
    events: list[str]
    is_error: bool


def _seen(span: ReadableSpan) -> Seen:
    context = span.get_span_context()
    assert context is not None
    return Seen(
        name=span.name,
        trace=context.trace_id,
        id=context.span_id,
        parent=0 if span.parent is None else span.parent.span_id,
        began=span.start_time or 0,
        facts=dict(span.attributes or {}),
        links=[(link.context.span_id, str((link.attributes or {}).get(a.LINK, ""))) for link in span.links],
        events=[event.name for event in span.events],
        is_error=not span.status.is_unset,
    )


def received(spans: Iterable[Exported]) -> list[Seen]:
    """Spans as a receiver of OTLP has them."""
    return [
        Seen(
            name=span.name,
            trace=int.from_bytes(span.trace_id),
            id=int.from_bytes(span.span_id),
            parent=int.from_bytes(span.parent_span_id),
            began=span.start_time_unix_nano,
            facts={
                pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
                for pair in span.attributes
            },
            links=[
                (
                    int.from_bytes(link.span_id),
                    next((pair.value.string_value for pair in link.attributes if pair.key == a.LINK), ""),
                )
                for link in span.links
            ],
            events=[event.name for event in span.events],
            is_error=span.status.code != 0,
        )
        for span in spans
    ]


def picture(spans: Iterable[Seen]) -> str:
    """Traces as trees, by their beginning: names, number, outcome, error; links by the names of what they lead to."""
    ordered = sorted(spans, key=lambda span: (span.began, span.facts.get(a.ATTEMPT_NUMBER, 0), span.name))
    names = {span.id: _called(span) for span in ordered}
    lines: list[str] = []

    def draw(span: Seen, depth: int) -> None:
        shown = [str(span.facts[name]) for name in _SHOWN if name in span.facts]
        shown += [f"({event})" for event in span.events]
        shown += [f"→ {names.get(to, 'elsewhere')} [{kind}]" for to, kind in span.links]
        mark = "! " if span.is_error else ""
        lines.append("  " * depth + mark + " ".join([_called(span), *shown]))
        for below in ordered:
            if below.parent == span.id:
                draw(below, depth + 1)

    for span in ordered:
        if span.parent not in names:
            draw(span, 0)
    return "\n".join(lines)


def _called(span: Seen) -> str:
    number = span.facts.get(a.ATTEMPT_NUMBER)
    name = span.name.replace(str(span.facts.get(a.NAMESPACE, "no namespace")), "ns")
    return name if number is None else f"{name} #{number}"
