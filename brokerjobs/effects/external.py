"""Effects outside the ledger: an intent before the call, an outcome after it, and never a second call by mistake.

    ask for permission ──granted──▶ call ──returned──▶ say that it happened ──▶ its result
           │                         ├──DidNotHappen──▶ say that it did not
           ├──it happened before──▶ the recorded result, no call
           ├──unknown──▶ EffectUnknown: the job goes to review
           └──lost──▶ StaleAttempt                  └──any other exception──▶ nothing is said: unknown

Whoever stops waiting (a cancelled handler, the end of a worker) takes nothing back: what was asked or said goes on to
the ledger, and a grant that nobody waits for any more is answered with "it did not happen".
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from brokerjobs.effects.wanted import Call, encoded, model_of, problems, says_no, takes_key, words
from brokerjobs.errors import BrokerjobsError, ConfigurationError, EffectUnknown, InvalidResult, StaleAttempt
from brokerjobs.ledger.effects import Granted, Intent, Known, Outcome
from brokerjobs.model_walk import Unfit
from brokerjobs.rules.verdicts import IntentVerdict, OutcomeVerdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.effects.wanted import Wanted
    from brokerjobs.ledger.calls import Holding

log = logging.getLogger("brokerjobs.worker")

_NEVER_CALLED: Final = "the call was never made"
_PATIENCE_SECONDS: Final = 1.0


class Reports(Protocol):
    """How the worker speaks to the ledger; both go on if the future is no longer waited for, unless it is cancelled."""

    def intent(self, intent: Intent, /) -> asyncio.Future[Granted]:
        """Asks for permission."""
        ...

    def outcome(self, outcome: Outcome, /) -> asyncio.Future[Known]:
        """Says what became of it."""
        ...


class Standing(Protocol):
    """The attempt as far as effects look at it."""

    def check(self) -> None:
        """Raises StaleAttempt if the lease is lost, and what else forbids to begin anything."""
        ...

    def is_trusted(self) -> bool:
        """May the lease still be trusted?"""
        ...

    def renewed(self, sent_at: float, answered_at: float, lease_seconds: float) -> None:
        """The lease was lengthened."""
        ...


class Effects:
    """The effects of one attempt."""

    def __init__(
        self, holding: Holding, job_type: str, reports: Reports, standing: Standing, *, lease_seconds: float
    ) -> None:
        self._holding = holding
        self._job_type = job_type
        self._reports = reports
        self._standing = standing
        self._lease_seconds = lease_seconds
        self._used: set[str] = set()
        self._withdrawing: asyncio.Task[None] | None = None

    async def run(self, name: str, call: Callable[..., Any], wanted: Wanted) -> Any:
        """Does an effect, or answers what it returned before; `call` may be a coroutine function."""
        with_key = takes_key(name, call)
        effect = self._begin(name, wanted)
        granted = await self._ask(effect)
        if granted.verdict != IntentVerdict.GRANTED:
            return self._decoded(effect, granted)
        key = self.permitted(granted)
        if key is None:
            await self._say(effect, granted, "did_not_happen", reference=_NEVER_CALLED)
            raise self._stale("lease_expired")
        limit = asyncio.timeout(effect.limit_seconds)
        try:
            async with limit:
                value = call(key) if with_key else call()
                if inspect.isawaitable(value):
                    value = await value
        except BaseException as error:
            if limit.expired() and isinstance(error, TimeoutError) and not error.args:
                error.args = (f"the call of effect {name!r} had not ended after its time limit of {effect.limit}",)
            if says_no(error, wanted):
                await self._say(effect, granted, "did_not_happen", reference=words(error))
            raise
        body, problem = encoded(effect, value, self._job_type)
        await self._say(effect, granted, "happened", result=body)
        if problem is not None:
            raise problem
        return value

    def run_in_thread(
        self, name: str, call: Callable[..., Any], wanted: Wanted, loop: asyncio.AbstractEventLoop
    ) -> Any:
        """As `run`, for a handler in a thread; the call is made there, and cannot be stopped at its time limit."""
        with_key = takes_key(name, call)
        effect = self._begin(name, wanted)
        granted = asyncio.run_coroutine_threadsafe(self._ask(effect), loop).result()
        if granted.verdict != IntentVerdict.GRANTED:
            return self._decoded(effect, granted)

        def say(outcome: str, **more: Any) -> None:
            asyncio.run_coroutine_threadsafe(self._say(effect, granted, outcome, **more), loop).result()

        key = self.permitted(granted)
        if key is None:
            say("did_not_happen", reference=_NEVER_CALLED)
            raise self._stale("lease_expired")
        try:
            value = call(key) if with_key else call()
        except BaseException as error:
            if says_no(error, wanted):
                say("did_not_happen", reference=words(error))
            raise
        if inspect.iscoroutine(value):
            value.close()
            say("did_not_happen", reference=_NEVER_CALLED)
            message = (
                f"effect {name!r}: a handler that is a plain `def` cannot await its call; give it a plain function"
            )
            raise ConfigurationError(message)
        body, problem = encoded(effect, value, self._job_type)
        say("happened", result=body)
        if problem is not None:
            raise problem
        return value

    def _begin(self, name: str, wanted: Wanted) -> Call:
        limit = timedelta(seconds=self._lease_seconds / 2) if wanted.time_limit is None else wanted.time_limit
        found = tuple(problems(name, wanted, limit, self._lease_seconds))
        if name in self._used:
            found = (*found, "its name was used before in this attempt; give each effect a name of its own")
        if found:
            message = f"effect {name!r} of job type {self._job_type!r}:"
            raise ConfigurationError(message, problems=found)
        self._standing.check()
        self._used.add(name)
        return Call(name, wanted, limit.total_seconds(), model_of(wanted.returns))

    async def _ask(self, effect: Call) -> Granted:
        """Asks for permission; raises StaleAttempt, EffectUnknown, and ConfigurationError if the lease is too short."""
        valid_for = effect.wanted.key_valid_for
        intent = Intent(
            self._holding,
            effect.name,
            effect.wanted.repeatable,
            None if valid_for is None else valid_for.total_seconds(),
            effect.limit_seconds,
            datetime.now(UTC),
        )
        sent_at = time.monotonic()
        asked = self._reports.intent(intent)
        try:
            granted = await asyncio.shield(asked)
        except asyncio.CancelledError:
            self._withdrawing = asyncio.create_task(self._withdraw(effect, asked))
            await asyncio.wait(
                {self._withdrawing}, timeout=_PATIENCE_SECONDS
            )  # before the attempt's own report, if it can be
            raise
        match IntentVerdict(granted.verdict):
            case IntentVerdict.UNKNOWN:
                raise EffectUnknown(
                    job_id=self._holding.job_id,
                    attempt_id=self._holding.attempt_id,
                    effect=effect.name,
                    key=granted.key or "",
                )
            case IntentVerdict.LOST | IntentVerdict.LOCKED:
                if granted.try_ is not None:  # an earlier request was granted, and its answer lost
                    await self._say(effect, granted, "did_not_happen", reference=_NEVER_CALLED)
                raise self._stale(granted.reason or "lease_expired")
            case IntentVerdict.TOO_LONG:
                limit, lease = effect.limit_seconds, granted.lease_seconds or 0.0
                message = (
                    f"effect {effect.name!r}: its time limit of {limit:g} s is longer than the lease of {lease:g} s"
                )
                raise ConfigurationError(message)
            case IntentVerdict.GRANTED:
                if granted.lease_seconds is not None:
                    self._standing.renewed(sent_at, time.monotonic(), granted.lease_seconds)
            case IntentVerdict.HAPPENED:
                pass
        return granted

    def permitted(self, granted: Granted) -> str | None:
        """The key, unless the lease was lost while the answer was under way."""
        return granted.key if self._standing.is_trusted() else None

    async def _withdraw(self, effect: Call, asked: asyncio.Future[Granted]) -> None:
        """The handler stopped waiting for permission; if it comes, nobody makes the call."""
        try:
            granted = await asked
            if granted.try_ is not None and granted.verdict in {IntentVerdict.GRANTED, IntentVerdict.LOST}:
                await self._say(effect, granted, "did_not_happen", reference=_NEVER_CALLED)
        except BrokerjobsError as error:
            log.warning("job %s: effect %r was not asked for: %s", self._holding.job_id, effect.name, error)

    async def _say(
        self, effect: Call, granted: Granted, outcome: str, *, result: str | None = None, reference: str | None = None
    ) -> None:
        said = self._reports.outcome(self._outcome(effect, granted, outcome, result=result, reference=reference))
        known = await asyncio.shield(said)
        if known.verdict != OutcomeVerdict.RECORDED:
            log.warning(
                "job %s: what attempt %s says of effect %r is kept as evidence: %s",
                self._holding.job_id,
                self._holding.attempt_id,
                effect.name,
                known.verdict,
            )

    def _outcome(
        self, effect: Call, granted: Granted, outcome: str, *, result: str | None, reference: str | None
    ) -> Outcome:
        return Outcome(self._holding, effect.name, granted.try_ or 1, outcome, result, reference, datetime.now(UTC))

    def _decoded(self, effect: Call, granted: Granted) -> Any:
        try:
            return effect.model.decode(granted.result or "null")
        except Unfit as unfit:
            problem = (
                f"effect {effect.name!r} happened before, and what was recorded of it does not fit: {unfit.problem}"
            )
            raise InvalidResult(job_type=self._job_type, path=unfit.path, problem=problem) from unfit

    def _stale(self, reason: str) -> StaleAttempt:
        holding = self._holding
        return StaleAttempt(
            job_id=holding.job_id, attempt_id=holding.attempt_id, fencing_number=holding.fencing_number, reason=reason
        )
