"""A worker's calls about effects, and what is written of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger import effects

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

CHARGE = "charge"


@dataclass(frozen=True, slots=True)
class Effects:
    """One caller's effects, named `charge` unless said otherwise."""

    caller: Caller

    def intend(
        self,
        holding: Holding,
        name: str = CHARGE,
        *,
        repeatable: bool = False,
        valid_for: float | None = None,
        limit: float = 10.0,
    ) -> effects.Granted:
        """Asks for permission."""
        intent = effects.Intent(holding, name, repeatable, valid_for, limit, self.caller.clock.now)
        return self.caller.fetch(effects.effect_intent([intent]))[0]

    def grant(self, holding: Holding, name: str = CHARGE, **options: Any) -> effects.Granted:
        """Asks for permission, which must be granted."""
        answer = self.intend(holding, name, **options)
        assert answer.verdict == "granted", answer
        return answer

    def happened(self, holding: Holding, result: Any = 7, name: str = CHARGE, try_: int = 1) -> effects.Known:
        """Says that it happened."""
        return self._say(holding, name, try_, "happened", json.dumps(result))

    def did_not_happen(self, holding: Holding, name: str = CHARGE, try_: int = 1) -> effects.Known:
        """Says that it did not."""
        return self._say(holding, name, try_, "did_not_happen", None)

    def _say(self, holding: Holding, name: str, try_: int, outcome: str, result: str | None) -> effects.Known:
        said = effects.Outcome(holding, name, try_, outcome, result, None, self.caller.clock.now)
        return self.caller.fetch(effects.effect_outcome([said]))[0]

    def ask(self, *types: str, seconds: float = 30.0) -> list[effects.OpenReview]:
        """Takes up open reviews, as a worker with reconcilers does."""
        place = self.caller.place
        return self.caller.fetch(effects.review_ask("reconciling", place.namespace, types or place.types, seconds, 10))

    def found(self, review: effects.OpenReview, **finding: Any) -> effects.FoundOut:
        """Says what was found out."""
        return self.caller.fetch(effects.review_found(review.review_id, review.asked, "reconciling", finding))[0]


def record(ledger: Ledger, job: UUID) -> dict[str, Any]:
    """The job's record."""
    [(found,)] = ledger.setting_up.sql("select brokerjobs.record(%s)", job)
    assert isinstance(found, dict)
    return found  # pyright: ignore[reportUnknownVariableType]


def events(ledger: Ledger, job: UUID) -> list[str]:
    """The kinds of the job's events, oldest first."""
    return [event["kind"] for event in record(ledger, job)["events"]]
