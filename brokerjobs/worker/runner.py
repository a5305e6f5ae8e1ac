"""Runs one attempt: decode, start, handler, report, acknowledge."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never

from brokerjobs.errors import BrokerjobsError, InvalidPayload, StopRequested
from brokerjobs.handlers import RunsIn
from brokerjobs.ledger.database import DataRefused
from brokerjobs.rules import texts
from brokerjobs.rules.failures import (
    MESSAGE_LIMIT,
    Failure,
    FailureClass,
    Snoozed,
    classify,
    name_of,
)
from brokerjobs.rules.states import ReportAs
from brokerjobs.rules.verdicts import ReportVerdict, StartVerdict
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.events import Event
from brokerjobs.telemetry.outcomes import Outcome
from brokerjobs.telemetry.shapes import Said
from brokerjobs.telemetry.tracing import tracing
from brokerjobs.worker.attempt import Lease
from brokerjobs.worker.context import Doors, HandlerContext, ThreadContext
from brokerjobs.worker.endings import (
    Ending,
    Returned,
    Stopped,
    abandoned_failure,
    error_of,
    limit_failure,
    rejection,
    shown,
    unclassified,
    unrecorded_failure,
)
from brokerjobs.worker.stopping import Stop, is_being_cancelled
from brokerjobs.worker.telling import about, told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ThreadPoolExecutor

    from brokerjobs.handlers import Handler
    from brokerjobs.ledger import calls
    from brokerjobs.worker.attempt import Attempt
    from brokerjobs.worker.completions import Completions
    from brokerjobs.worker.processes import Processes
    from brokerjobs.worker.settlement import Settlement
    from brokerjobs.worker.stopping import Stopping

log = logging.getLogger("brokerjobs.worker")


@dataclass(frozen=True, slots=True)
class Places:
    """Where handlers run that do not run on the event loop."""

    threads: ThreadPoolExecutor
    processes: Processes


class Runner:
    """Everything that an attempt needs to run."""

    def __init__(self, completions: Completions, settlement: Settlement, doors: Doors, places: Places) -> None:
        self._completions = completions
        self._settlement = settlement
        self._doors = doors
        self._places = places

    async def run(
        self,
        attempt: Attempt,
        handler: Handler,
        stopping: Stopping,
        ready: Callable[[Attempt], Awaitable[None]] | None = None,
    ) -> None:
        """Runs the attempt to its end, once it is `ready`: the report is committed and the delivery acknowledged."""
        try:
            payload = attempt.job_type.decode_payload(attempt.claimed.payload)
        except InvalidPayload as error:
            await self._refuse(attempt, error)
            return
        if ready is not None and not await self._unless_stopped(attempt, self._ready(attempt, ready)):
            return
        if not attempt.claimed.repeatable and not await self._unless_stopped(attempt, self._start(attempt)):
            return
        attempt.started_at = attempt.started_at or datetime.now(UTC)
        context = self._context(attempt, handler)
        if context is not None:
            attempt.is_ending = lambda: context.place.completing
        timer = stopping.when_due(attempt)
        ending = await self._handle(attempt, handler, payload, context)
        timer.cancel()
        metrics.handled(attempt.job_type.name, time.monotonic() - attempt.began_at, error_of(ending))
        if context is not None:
            context.over()
        if attempt.abandoned:
            await self._late_ending(attempt, ending)
            return
        attempt.is_ending = _yes
        attempt.has_ended = True
        if context is not None and context.place.completing:
            reported = await self._ask(attempt, ending, context.place.recorded)
        else:
            reported = await self._report(attempt, ending)
        if reported is not None and reported.verdict == ReportVerdict.REJECTED:
            rejected = (*_ids(attempt), rejection(reported.reason))
            extra = about(Event.REPORT_REJECTED, attempt)
            log.warning("job %s: the report of attempt %s was rejected: %s", *rejected, extra=extra)
        self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """Acknowledges, once: what may outlast the broker's patience was acknowledged when it was claimed."""
        if attempt.acked_on_claim:
            self._settlement.ended(attempt)
        else:
            self._settlement.ack(attempt.delivery, attempt)

    async def _refuse(self, attempt: Attempt, error: InvalidPayload) -> None:
        """A payload that this worker's model refuses: not here if another model took it, else it never fits."""
        attempt.has_ended = True
        if attempt.claimed.checked:
            extra = about(Event.NOT_QUALIFIED, attempt)
            log.warning("job %s is not qualified here: %s", attempt.claimed.job_id, error, extra=extra)
            await self._completions.not_qualified(attempt, error)
        else:
            await self._failed(attempt, _refused(error))
        self._settle(attempt)

    async def _unless_stopped(self, attempt: Attempt, step: Awaitable[bool]) -> bool:
        """Takes a step to the handler; told to stop, the attempt is released: it never ran, whatever is recorded."""
        try:
            return await step
        except asyncio.CancelledError:
            if attempt.stop is None:
                raise
        _uncancel()
        attempt.started_at = None
        attempt.has_ended = True
        attempt.given_back = attempt.stop is Stop.DRAIN
        await self._completions.released(attempt, attempt.stop.value, classified=True)
        self._settle(attempt)
        return False

    async def _ready(self, attempt: Attempt, ready: Callable[[Attempt], Awaitable[None]]) -> bool:
        """Waits until the handler may begin; False if the lease was lost meanwhile."""
        await ready(attempt)
        attempt.begin()
        if attempt.lease is Lease.HELD:
            return True
        self._lost(attempt)
        self._settle(attempt)
        return False

    def _lost(self, attempt: Attempt) -> None:
        extra = about(Event.LEASE_LOST, attempt)
        log.warning("job %s: attempt %s lost its lease before its handler started", *_ids(attempt), extra=extra)
        attempt.span.end(Outcome.LOST)

    async def _start(self, attempt: Attempt) -> bool:
        """Commits the start of a not repeatable attempt; False if it may not run."""
        match await self._completions.start(attempt):
            case StartVerdict.STARTED:
                return True
            case StartVerdict.CANCEL_REQUESTED:
                attempt.has_ended = True
                await self._completions.released(attempt, "cancel", classified=True)
            case StartVerdict.LOST | StartVerdict.LOCKED:
                self._lost(attempt)
        self._settle(attempt)
        return False

    def _context(self, attempt: Attempt, handler: Handler) -> HandlerContext | ThreadContext | None:
        if not handler.takes_context or handler.runs_in is RunsIn.PROCESS:
            return None
        return (HandlerContext if handler.is_async else ThreadContext)(attempt, self._doors)

    async def _handle(
        self, attempt: Attempt, handler: Handler, payload: Any, context: HandlerContext | ThreadContext | None
    ) -> Ending:
        """Calls the handler and says how it ended; raises nothing of the handler's."""
        arguments = (payload,) if context is None else (payload, context)
        try:
            if handler.is_async:
                result = await handler.function(*arguments)
            elif handler.runs_in is RunsIn.PROCESS:
                return await self._places.processes.handle(attempt)
            else:
                result = await self._run_in_thread(attempt, handler, arguments)
            return Returned(attempt.job_type.encode_result(result).decode())
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises, its attempt has ended
            return _ending(attempt, error)

    async def _run_in_thread(self, attempt: Attempt, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        """A thread cannot be stopped: at a limit the attempt ends and the thread goes on, fenced off."""
        variables = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(
            self._places.threads, lambda: variables.run(_called, handler.function, arguments)
        )
        attempt.thread = future
        return await asyncio.shield(future)

    async def _report(self, attempt: Attempt, ending: Ending) -> calls.Reported | None:
        """Reports the ending; what the ledger cannot store becomes a failure, and harms no other attempt."""
        try:
            return await self._report_as(attempt, ending)
        except DataRefused as error:
            log.warning("job %s: the ledger refused the report of attempt %s: %s", *_ids(attempt), error)
            return await self._failed(attempt, _unstorable(attempt, ending, error))

    async def _report_as(self, attempt: Attempt, ending: Ending) -> calls.Reported | None:
        match ending:
            case Returned(body):
                return await self._completions.completed(attempt, body)
            case Failure():
                return await self._failed(attempt, ending)
            case Snoozed(until):
                return await self._completions.released(attempt, "snooze", classified=True, until=until)
            case Stopped(why):
                return await self._stopped(attempt, why)
            case _:
                assert_never(ending)

    async def _stopped(self, attempt: Attempt, why: Stop) -> calls.Reported:
        """Reports an attempt that ended because it was told to."""
        if why is Stop.CANCEL or why is Stop.DRAIN:
            attempt.given_back = why is Stop.DRAIN
            return await self._completions.released(attempt, why.value, classified=attempt.waits_for_process)
        return await self._failed(attempt, limit_failure(attempt, why))

    async def report_abandoned(self, attempt: Attempt) -> None:
        """Reports an attempt whose task ignored that it was told to stop; a failure, since it was not stopped (R5)."""
        attempt.is_ending = _yes
        await self._failed(attempt, abandoned_failure(attempt))
        self._settle(attempt)

    async def _late_ending(self, attempt: Attempt, ending: Ending) -> None:
        """What an abandoned task says in the end."""
        if attempt.reporting is not None:
            await attempt.reporting  # first of all: a success must never be taken for this attempt's one report
        if isinstance(ending, Returned):
            await self._late_result(attempt, ending.body)

    async def late(self, attempt: Attempt, result: object) -> None:
        """Keeps what a thread returned after the end of its attempt as evidence."""
        try:
            body = attempt.job_type.encode_result(result).decode()
        except BrokerjobsError as error:
            log.warning("job %s: the late result of attempt %s is none: %s", *_ids(attempt), error)
        else:
            await self._late_result(attempt, body)

    async def _late_result(self, attempt: Attempt, body: str) -> None:
        reported = await self._completions.completed(attempt, body)
        log.warning(
            "job %s: the handler of attempt %s returned after its end; the result is kept as evidence (%s)",
            *(*_ids(attempt), reported.verdict),
            extra=about(Event.LATE_RESULT, attempt),
        )

    async def _ask(self, attempt: Attempt, ending: Ending, recorded: str | None) -> calls.Reported | None:
        """After a completing transaction: ask whether it committed, and never send a success (rule R7)."""
        began = tracing.now()
        answer = await self._completions.asked(attempt)
        if answer.verdict != "reported":
            failure = ending if isinstance(ending, Failure) else unrecorded_failure(attempt)
            return await self._failed(attempt, failure, evidence=recorded)
        said = Said(answer.report_verdict or answer.verdict, answer.reason, answer.late, answer.state)
        told(attempt, ReportAs.COMPLETED, began, said)
        if not (isinstance(ending, Returned) and ending.body in {recorded, "null"}):
            how = shown(ending)
            why = f" ({ending.error_type}: {ending.message})" if isinstance(ending, Failure) else ""
            message = "job %s: attempt %s completed in its transaction and then ended otherwise: %s%s"
            log.warning(message, *_ids(attempt), how["as"], why, extra=about(Event.ENDED_OTHERWISE, attempt))
            await self._completions.ended_otherwise(attempt, how)
        return None

    async def _failed(self, attempt: Attempt, failure: Failure, *, evidence: str | None = None) -> calls.Reported:
        """Reports a failure, and says it in the log as the record will have it: redacted and cut."""
        job_id, number = attempt.claimed.job_id, attempt.claimed.number
        said = (job_id, attempt.job_type.name, number, failure.failure_class, failure.error_type, failure.message)
        extra = about(Event.ATTEMPT_FAILED, attempt)
        log.warning("job %s (%s): attempt %d failed (%s): %s: %s", *said, extra=extra)
        if failure.traceback:
            log.debug("job %s: attempt %d: %s", job_id, number, failure.traceback)
        return await self._completions.failed(attempt, failure, evidence=evidence)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Calls a handler in its thread; what no future can carry to a coroutine is raised as from a coroutine."""
    try:
        return function(*arguments)
    except (StopIteration, GeneratorExit) as error:
        message = f"the handler raised {type(error).__name__}"
        raise RuntimeError(message) from error


def _refused(error: Exception) -> Failure:
    """A payload or a result that can never be taken."""
    return Failure(
        failure_class=FailureClass.INVALID,
        classified=True,
        error_type=name_of(type(error)),
        message=texts.first_part(str(error), MESSAGE_LIMIT),  # with a part of a validator's of the user's own
    )


def _unstorable(attempt: Attempt, ending: Ending, error: DataRefused) -> Failure:
    """What is reported in place of what the ledger refused: a result can never be taken, the rest is unclassified."""
    if isinstance(ending, Returned):
        return _refused(error)
    message = f"the ledger could not store how the handler ended: {error}"
    return unclassified(attempt, "ReportRefused", message)


def _ending(attempt: Attempt, error: BaseException) -> Ending:
    """What the exception of a handler means; raises it if this task was cancelled without being told to stop."""
    cancelled = isinstance(error, asyncio.CancelledError) and is_being_cancelled()
    if attempt.stop is not None and (cancelled or isinstance(error, StopRequested)):
        _uncancel()
        return Stopped(attempt.stop)
    if cancelled:
        raise error
    return classify(error, attempt.job_type.failures, repeatable=attempt.claimed.repeatable)


def _uncancel() -> None:
    """The wish was granted: what follows is the report, which nobody has cancelled."""
    if (task := asyncio.current_task()) is not None:
        while task.cancelling():
            task.uncancel()


def _yes() -> bool:
    return True


def _ids(attempt: Attempt) -> tuple[Any, Any]:
    return attempt.holding.job_id, attempt.holding.attempt_id
