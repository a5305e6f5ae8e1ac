"""Reports: what each attempt finally says goes to the ledger by group commit, and its verdict comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.errors import InvalidPayload, LedgerUnavailable
from brokerjobs.ledger import calls, effects
from brokerjobs.ledger.group_commit import GroupCommit
from brokerjobs.rules import texts
from brokerjobs.rules.failures import MESSAGE_LIMIT
from brokerjobs.rules.states import ReportAs
from brokerjobs.rules.verdicts import IntentVerdict, OutcomeVerdict, ReportVerdict, StartVerdict
from brokerjobs.telemetry import reviews
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker.telling import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.ledger.database import AsyncLedgerConnection
    from brokerjobs.rules.failures import Failure
    from brokerjobs.worker.attempt import Attempt

log = logging.getLogger("brokerjobs.worker")

_PAUSE_SECONDS: Final = 0.05


class Completions:
    """The reports connection and its group commits: one a kind of report, and one for starts."""

    def __init__(self, connection: AsyncLedgerConnection) -> None:
        self._connection = connection

        async def complete(reports: Sequence[calls.Report]) -> Sequence[calls.Reported]:
            return await connection.fetch(calls.complete(reports))

        async def fail(reports: Sequence[calls.Report]) -> Sequence[calls.Reported]:
            return await connection.fetch(calls.fail(reports))

        async def release(reports: Sequence[calls.Report]) -> Sequence[calls.Reported]:
            return await connection.fetch(calls.release(reports))

        async def start(items: Sequence[tuple[calls.Holding, datetime]]) -> Sequence[calls.Verdict]:
            return await connection.fetch(calls.start([h for h, _ in items], [at for _, at in items]))

        async def intend(intents: Sequence[effects.Intent]) -> Sequence[effects.Granted]:
            return await connection.fetch(effects.effect_intent(intents))

        async def know(outcomes: Sequence[effects.Outcome]) -> Sequence[effects.Known]:
            return await connection.fetch(effects.effect_outcome(outcomes))

        self._intended = GroupCommit(intend, is_locked=lambda granted: granted.verdict == IntentVerdict.LOCKED)
        self._known = GroupCommit(
            know,
            is_locked=lambda known: known.verdict == OutcomeVerdict.LOCKED,
            size=lambda outcome: len(outcome.result or ""),
        )
        self._completed = GroupCommit(complete, is_locked=_is_locked, size=_size)
        self._failed = GroupCommit(fail, is_locked=_is_locked, size=_size)
        self._released = GroupCommit(release, is_locked=_is_locked, size=_size)
        self._started = GroupCommit(start, is_locked=lambda verdict: verdict.verdict == StartVerdict.LOCKED)

    async def run(self) -> None:
        """Serves all of them until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for gathered in (self._completed, self._failed, self._released):
                group.create_task(gathered.run())
            for asked in (self._started, self._intended, self._known):
                group.create_task(asked.run())

    async def start(self, attempt: Attempt) -> StartVerdict:
        """Commits the start of an attempt before its handler runs."""
        observed_at = datetime.now(UTC)
        answer = await self._started.ask((attempt.holding, observed_at))
        reviews.tell(log, answer.opened)
        verdict = StartVerdict(answer.verdict)
        if verdict is StartVerdict.STARTED:  # else its handler never runs, and nothing may say that it did
            attempt.started_at = observed_at
        return verdict

    def intent(self, intent: effects.Intent, /) -> asyncio.Future[effects.Granted]:
        """Asks for permission to do an effect."""
        return self._intended.ask(intent)

    def outcome(self, outcome: effects.Outcome, /) -> asyncio.Future[effects.Known]:
        """Says what became of an effect."""
        return self._known.ask(outcome)

    async def completed(self, attempt: Attempt, body: str) -> calls.Reported:
        """Reports a result, as JSON."""
        began = tracing.now()
        reported = await self._completed.ask(attempt.report(body, datetime.now(UTC)))
        told(attempt, ReportAs.COMPLETED, began, reported)
        return _told(reported, f"the result of attempt {attempt.claimed.number} was refused ({reported.reason})")

    async def failed(self, attempt: Attempt, failure: Failure, *, evidence: str | None = None) -> calls.Reported:
        """Reports a failure; `evidence` is a result, as JSON, that may not be taken for the job's."""
        data = failure.as_data()
        if evidence is not None:
            data["result"] = json.loads(evidence)
        began = tracing.now()
        reported = await self._failed.ask(attempt.report(json.dumps(data), datetime.now(UTC)))
        told(attempt, ReportAs.FAILED, began, reported, failure)
        how = f"{failure.failure_class}, {failure.error_type}"
        return _told(reported, f"attempt {attempt.claimed.number} failed ({how})")

    async def released(
        self, attempt: Attempt, why: str, *, classified: bool = False, until: datetime | None = None
    ) -> calls.Reported:
        """Gives an attempt back: `drain` or `snooze` (with `until`)."""
        data: dict[str, Any] = {"why": why, "classified": classified}
        if until is not None:
            data["until"] = until.isoformat()
        return await self._given_back(attempt, data)

    async def not_qualified(self, attempt: Attempt, error: InvalidPayload) -> calls.Reported:
        """Gives an attempt back whose payload this worker's model refuses: another worker's may take it."""
        data = {
            "why": "not_here",
            "classified": True,
            "type": type(error).__name__,
            "message": texts.first_part(str(error), MESSAGE_LIMIT),
            "fingerprint": attempt.job_type.fingerprint,
        }
        return await self._given_back(attempt, data)

    async def _given_back(self, attempt: Attempt, data: dict[str, Any]) -> calls.Reported:
        began = tracing.now()
        reported = await self._released.ask(attempt.report(json.dumps(data), datetime.now(UTC)))
        told(attempt, ReportAs.RELEASED, began, reported)
        return _told(reported, f"attempt {attempt.claimed.number} was given back ({data['why']})")

    async def asked(self, attempt: Attempt) -> calls.Asked:
        """Asks whether the attempt has reported, until the ledger answers (rule R7)."""
        while True:
            try:
                (answer,) = await self._connection.fetch(calls.asked(attempt.holding))
            except LedgerUnavailable:
                await asyncio.sleep(_PAUSE_SECONDS * 10)
                continue
            if answer.verdict != ReportVerdict.LOCKED:
                return answer
            await asyncio.sleep(_PAUSE_SECONDS)

    async def ended_otherwise(self, attempt: Attempt, how: dict[str, Any]) -> None:
        """Notes that the handler ended in another way than its completing transaction; only evidence."""
        with contextlib.suppress(LedgerUnavailable):
            await self._connection.fetch(calls.ended_otherwise(attempt.holding, how))


def _told(reported: calls.Reported, cause: str) -> calls.Reported:
    """The ledger's verdict; said aloud if this report has put its job into review."""
    reviews.tell(log, reported.opened, cause)
    return reported


def _is_locked(reported: calls.Reported) -> bool:
    return reported.verdict == ReportVerdict.LOCKED


def _size(report: calls.Report) -> int:
    return len(report.body)
