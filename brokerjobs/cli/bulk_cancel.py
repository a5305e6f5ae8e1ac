"""Cancelling all queued jobs of a type: they are counted first, and only those that were counted are cancelled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli import decision, output
from brokerjobs.cli.failures import NotFound, Refused
from brokerjobs.ledger import operations, pauses
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.decisions import Request

_BATCH: Final = 200
_LOCKED_PAUSE_SECONDS: Final = 0.1
_LOCKED_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which queued jobs: of a type, with these tags or any, at most so many."""

    namespace: str
    job_type: str
    tags: Mapping[str, str]
    limit: int

    @property
    def name(self) -> str:
        """The type's whole name, with the tags."""
        tags = "".join(f" with {key}={value}" for key, value in self.tags.items())
        return f"{self.namespace}/{self.job_type}{tags}"


@dataclass(slots=True)
class Outcome:
    """What became of the jobs that were found."""

    found: int
    cancelled: int = 0
    left: int = 0
    """They were no longer queued when their turn came: they run, or have ended."""
    busy: int = 0
    """Somebody wrote them all the while."""


def carry_out(ledger: LedgerConnection, wanted: Wanted, request: Request, *, yes: bool) -> Outcome:
    """Count, ask, cancel in bounded batches; raises Refused if nobody said yes, NotFound if there is no such type."""
    rows = ledger.fetch(operations.queued_jobs(wanted.namespace, wanted.job_type, wanted.tags, wanted.limit))
    jobs = [row.job_id for row in rows]
    outcome = Outcome(len(jobs))
    if not jobs:
        if not ledger.fetch(pauses.types(wanted.namespace, wanted.job_type)):
            message = f"no job type {wanted.namespace}/{wanted.job_type} is registered"
            raise NotFound(message, hint="brokerjobs types list")
        return outcome
    more = " (there may be more: --limit)" if len(jobs) == wanted.limit else ""
    question = f"cancel {counted(len(jobs), 'queued job', 'queued jobs')} of {wanted.name}{more}"
    decision.confirm(question, yes=yes, hint="the same command with --yes cancels them")
    for batch in decision.batches(jobs, _BATCH):
        _cancel(ledger, batch, request, outcome)
        done = outcome.cancelled + outcome.left + outcome.busy
        if len(jobs) > _BATCH and output.is_terminal():
            output.say(f"{done} of {len(jobs)}")
    return outcome


def _cancel(ledger: LedgerConnection, batch: list[UUID], request: Request, outcome: Outcome) -> None:
    """Cancel one batch; what is busy is asked again for some seconds."""
    by, reason = request.params()
    for _ in range(_LOCKED_TRIES):
        query = operations.cancel_queued(batch, str(by), str(reason))
        # The same wish asked again is answered the same, so a lost reply costs nothing.
        answers = decision.ask(ledger, query, request)
        outcome.cancelled += sum(one.verdict == "cancelled" for one in answers)
        outcome.left += sum(one.verdict == "left" for one in answers)
        batch = [one.job_id for one in answers if one.verdict == "locked"]
        if not batch:
            return
        time.sleep(_LOCKED_PAUSE_SECONDS)
    outcome.busy += len(batch)


def tell(wanted: Wanted, outcome: Outcome, output_format: output.Format) -> None:
    """Say what became of them; raises Refused if some stayed busy: the same command cancels the rest."""
    if output_format is output.Format.JSON:
        output.put_json(as_json(wanted, outcome))
    elif not outcome.found:
        output.put(f"no queued job of {wanted.name}")
    else:
        left = f"; {counted(outcome.left, 'was', 'were')} no longer queued and left alone" if outcome.left else ""
        output.put(f"{counted(outcome.cancelled, 'job', 'jobs')} of {wanted.name} cancelled{left}")
    if outcome.busy:
        message = f"{counted(outcome.busy, 'job is', 'jobs are')} being written just now and not cancelled"
        raise Refused(message, hint="the same command again cancels the rest")


def as_json(wanted: Wanted, outcome: Outcome) -> dict[str, Any]:
    """One object."""
    return {
        "schema": "brokerjobs.cancel_many/1",
        "namespace": wanted.namespace,
        "type": wanted.job_type,
        "found": outcome.found,
        "cancelled": outcome.cancelled,
        "no_longer_queued": outcome.left,
        "busy": outcome.busy,
    }
