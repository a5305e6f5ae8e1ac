"""Reviews that open: logged, and counted, by whichever process opened them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerjobs.rules import reviews
from brokerjobs.telemetry import metrics

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping


def tell(log: logging.Logger, opening: Mapping[str, Any] | None, cause: str | None = None) -> None:
    """Logs that a review opened, if one did, as `rules.reviews.tell`, and counts it."""
    if opening is not None:
        reviews.tell(log, opening, cause)
        metrics.review_opened(opening["type"])
