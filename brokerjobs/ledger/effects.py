"""Queries about effects: intents before a call, outcomes after it, and what reconcilers ask and find out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.calls import array_literal, columns
from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding


@dataclass(frozen=True, slots=True)
class Intent:
    """What an attempt wants to do; `valid_for_seconds` is how long the outside knows the key, None for ever."""

    holding: Holding
    name: str
    repeatable: bool
    valid_for_seconds: float | None
    time_limit_seconds: float
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class Granted:
    """Answer to an intent; `lease_seconds` is set if the lease was lengthened for it."""

    job_id: UUID
    attempt_id: UUID
    verdict: str
    reason: str | None
    try_: int | None
    key: str | None
    lease_seconds: float | None
    result: str | None
    reference: str | None


def effect_intent(intents: Sequence[Intent]) -> Query[Granted]:
    """Asks for permission to do effects."""
    return Query(
        "select * from brokerjobs.effect_intent(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::boolean[],"
        " %s::double precision[], %s::double precision[], %s::timestamptz[])",
        [
            *columns([one.holding for one in intents]),
            [one.name for one in intents],
            [one.repeatable for one in intents],
            array_literal(one.valid_for_seconds for one in intents),
            array_literal(one.time_limit_seconds for one in intents),
            array_literal(one.observed_at for one in intents),
        ],
        Granted,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an effect that was granted: `happened` with its result as JSON, or `did_not_happen`."""

    holding: Holding
    name: str
    try_: int
    outcome: str
    result: str | None
    reference: str | None
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """Answer to an outcome."""

    job_id: UUID
    attempt_id: UUID
    verdict: str
    late: bool | None


def effect_outcome(outcomes: Sequence[Outcome]) -> Query[Known]:
    """Says what became of effects."""
    return Query(
        "select * from brokerjobs.effect_outcome(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::integer[],"
        " %s::text[], %s::text[], %s::text[], %s::timestamptz[])",
        [
            *columns([one.holding for one in outcomes]),
            [one.name for one in outcomes],
            array_literal(one.try_ for one in outcomes),
            [one.outcome for one in outcomes],
            [one.result for one in outcomes],
            [one.reference for one in outcomes],
            array_literal(one.observed_at for one in outcomes),
        ],
        Known,
    )


@dataclass(frozen=True, slots=True)
class OpenReview:
    """A review that this process may ask the outside about just now; `asked` names this asking."""

    review_id: UUID
    job_id: UUID
    asked: int
    type: str
    payload: str
    key: str | None
    submitted_by: str
    tags: dict[str, str]
    cause: str
    opened_at: datetime
    effects: list[dict[str, Any]]


def review_ask(by: str, namespace: str, types: Sequence[str], lease_seconds: float, limit: int) -> Query[OpenReview]:
    """Takes up open reviews of jobs whose types have a reconciler here, each for `lease_seconds`."""
    return Query(
        "select * from brokerjobs.review_ask(%s, %s, %s::text[], %s, %s)",
        [by, namespace, list(types), lease_seconds, limit],
        OpenReview,
    )


@dataclass(frozen=True, slots=True)
class FoundOut:
    """Answer to a finding: decided | too_early | noted | closed | superseded, and the job's state."""

    verdict: str
    state: str | None


def review_found(review_id: UUID, asked: int, by: str, finding: dict[str, Any]) -> Query[FoundOut]:
    """Says what was found out: {as: happened, result, reference} | {as: did_not_happen, why} | {as: unknown, why}."""
    return Query(
        "select * from brokerjobs.review_found(%s, %s, %s, %s::jsonb)",
        [review_id, asked, by, json.dumps(finding)],
        FoundOut,
    )
