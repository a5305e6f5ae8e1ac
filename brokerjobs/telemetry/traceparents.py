"""Span contexts as text, in the form of W3C's `traceparent`: how the ledger, messages and child processes carry them.

Written and read here and not by the global propagator, which a user may have set to another format.
"""

from __future__ import annotations

import re
from typing import Final

from opentelemetry.trace import SpanContext, TraceFlags, TraceState

# A later version may add to it at the end; flags may have more than the sampled bit, as `03` has.
_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


def parsed(text: str | None, state: str | None = None) -> SpanContext | None:
    """The span context that a text is about, which is another process's; None if it is none. `state`: a tracestate."""
    if text is None or (found := _FORM.fullmatch(text)) is None:
        return None
    trace, span, flags = found.groups()
    states = None if state is None else TraceState.from_header([state])
    context = SpanContext(int(trace, 16), int(span, 16), True, TraceFlags(int(flags, 16)), states)  # noqa: FBT003  # is_remote; by keyword it takes longer
    return context if context.is_valid else None


def text_of(context: SpanContext) -> str | None:
    """A span context as text; None for one that is none."""
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
