"""A sampler that follows links, so that both ends of a link are kept, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, SamplingResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, TraceState
    from opentelemetry.util.types import Attributes


class _FollowsLinks(Sampler):
    """Decides about roots: as was decided about what they are linked to; `root` decides about those without links."""

    def __init__(self, root: Sampler) -> None:
        self._root = root

    def should_sample(  # noqa: PLR0913, PLR0917  # the SDK's own signature
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Samples if one of the linked spans is sampled."""
        linked = [link.context for link in links or () if link.context.is_valid]
        sampler = self._root
        if linked:
            sampler = ALWAYS_ON if any(context.trace_flags.sampled for context in linked) else ALWAYS_OFF
        return sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"FollowsLinks{{{self._root.get_description()}}}"


class LinkedParentSampler(ParentBased):
    """Follows the parent, else the links, and else lets `root` decide (by default: everything).

    For a provider of one's own: `TracerProvider(sampler=LinkedParentSampler(TraceIdRatioBased(0.01)))`.
    """

    def __init__(self, root: Sampler = ALWAYS_ON) -> None:
        super().__init__(_FollowsLinks(root))
