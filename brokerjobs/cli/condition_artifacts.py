"""What `brokerjobs status` says of artifacts and their stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.cli.checkup.findings import Level
from brokerjobs.cli.condition_words import DOCTOR, Line, age, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.condition_words import Data


def artifacts(overview: Data) -> Iterator[Line]:
    """Copies that are not what was staged; those that nobody fetched in time; and what is not removed."""
    # Not said by a ledger that `brokerjobs setup` has still to renew.
    seen: Data = overview.get("artifacts", {})
    if count := seen.get("hash_mismatch", 0):
        yield Line(
            "artifacts",
            Level.FAIL,
            f"{many(count)} staged {'copy is' if count == 1 else 'copies are'} not what was staged, or missing",
            "brokerjobs artifacts list --state hash_mismatch --all-attempts",
        )
    if count := seen.get("expired_unacknowledged", 0):
        those = f"{many(count)} {'artifact' if count == 1 else 'artifacts'}"
        yield Line(
            "artifacts",
            Level.WARN,
            f"nobody acknowledged {those} in time: removed in the last day",
            "brokerjobs artifacts list --state expired_unacknowledged",
        )
    for one in overview.get("stores", ()):
        if count := one["unremoved"]:
            those = f"{many(count)} {'artifact is' if count == 1 else 'artifacts are'}"
            yield Line(
                "store",
                Level.WARN,
                f"{those} to be removed from {one['store']} and not gone, the first for "
                f"{age(one['unremoved_seconds'])}",
                DOCTOR,
            )
        elif one["unswept"]:
            yield Line(
                "store",
                Level.WARN,
                f"nobody has looked after {one['store']} for {age(one['unswept_seconds'])}: nothing is removed from it",
                DOCTOR,
            )
