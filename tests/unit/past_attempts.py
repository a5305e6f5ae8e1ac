"""Attempts that have ended, as a ledger may tell of them."""

from __future__ import annotations

from typing import Any

from brokerjobs.rules.lease_history import PastAttempt


def attempt(life: float = 40.0, *, silent: float | None = 10.1, **other: Any) -> PastAttempt:
    """One that completed after `life`; renewed every 10 s of its 30 s, once after being `silent` for so long."""
    facts: dict[str, Any] = {
        "lease": 30.0,
        "time_limit": 600.0,
        "granted": life // 10 * 10,
        "closed": life,
        "reported": life,
        "lost": False,
        "handler": life,
        "renewals": int(life // 10),
        "smallest_margin": None if silent is None or life < 10 else 30.0 - silent,
        "longest_round_trip": None if life < 10 else 0.01,
        "completed": True,
    }
    return PastAttempt(**(facts | other))


def lost(*, granted: float = 20.0, silent: float | None = 45.0, **other: Any) -> PastAttempt:
    """One whose lease of 30 s was given up after half a second more; it reported after so long a silence."""
    reported = None if silent is None else granted + silent
    facts: dict[str, Any] = {
        "completed": silent is not None,
        "handler": None,
        "renewals": None,
        "smallest_margin": None,
    }
    facts |= {"granted": granted, "closed": granted + 30.5, "reported": reported, "lost": True}
    return attempt(**(facts | other))
