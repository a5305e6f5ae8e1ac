"""How a handler ended, and what is said of one that had to be ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from brokerjobs.rules.failures import Failure, FailureClass, Snoozed, time_limit_failure
from brokerjobs.rules.verdicts import RejectReason
from brokerjobs.worker.stopping import Stop

if TYPE_CHECKING:
    from brokerjobs.worker.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned; `body` is its result as JSON."""

    body: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler ended because it was told to."""

    why: Stop


Ending: TypeAlias = Returned | Failure | Snoozed | Stopped


def unclassified(attempt: Attempt, error_type: str, message: str) -> Failure:
    """A failure of which nobody said what it means: temporary if the job may be repeated, else unsafe (rule R8)."""
    repeatable = attempt.claimed.repeatable
    return Failure(
        failure_class=FailureClass.TEMPORARY if repeatable else FailureClass.UNSAFE,
        classified=False,
        error_type=error_type,
        message=message,
    )


def limit_failure(attempt: Attempt, why: Stop) -> Failure:
    """The failure of an attempt that had not ended at its time limit, or at the job's deadline."""
    if attempt.waits_for_process:
        message = "there was no process for its handler until then; it never began"
        return Failure(failure_class=FailureClass.TEMPORARY, classified=True, error_type="NoProcess", message=message)
    limit = timedelta(seconds=attempt.claimed.time_limit_seconds)
    failure = time_limit_failure(limit, repeatable=attempt.claimed.repeatable)
    if why is Stop.DEADLINE:
        failure = unclassified(attempt, "DeadlinePassed", "the handler had not ended when the job's deadline passed")
    if attempt.thread is not None and not attempt.thread.done():
        failure = replace(failure, message=f"{failure.message}; its thread cannot be stopped and goes on")
    return failure


def abandoned_failure(attempt: Attempt) -> Failure:
    """The failure of an attempt whose task ignored its cancellation."""
    goes_on = "its task ignored the cancellation (CancelledError) and goes on"
    if attempt.stop is Stop.TIME_LIMIT or attempt.stop is Stop.DEADLINE:
        failure = limit_failure(attempt, attempt.stop)
        return replace(failure, message=f"{failure.message}; {goes_on}")
    return unclassified(attempt, "NotStopped", f"a cancel of the job was asked for, but {goes_on}")


def died_failure(attempt: Attempt, exit_code: int | None) -> Failure:
    """The failure of an attempt whose process is gone."""
    return unclassified(attempt, "ProcessDied", f"the process of the handler {_how(exit_code)}")


def garbled_failure(attempt: Attempt) -> Failure:
    """The failure of an attempt whose process said what is no answer."""
    message = "something else than the handler's answer came from its process, which was killed"
    return unclassified(attempt, "ProcessGarbled", message)


def unrecorded_failure(attempt: Attempt) -> Failure:
    """The failure of an attempt whose completing transaction is not in the ledger."""
    message = "the handler ended, but the transaction that carried its result is not in the ledger"
    return unclassified(attempt, "ResultNotRecorded", message)


def shown(ending: Ending) -> dict[str, Any]:
    """An ending as the record has it, in a few words."""
    match ending:
        case Returned():
            return {"as": "another result"}
        case Failure(error_type=error_type):
            return {"as": "failed", "type": error_type}
        case Snoozed():
            return {"as": "snoozed"}
        case Stopped(why):
            return {"as": "stopped", "why": why.value}


def rejection(reason: str | None) -> str:
    """Why the ledger rejected a result, as the log says it."""
    if reason == RejectReason.ARTIFACT_NOT_READY:
        return f"{reason}: it names an artifact that is not ready, or that is not its own; the record says which"
    return str(reason)


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "is gone"
    if exit_code >= 0:
        return f"ended itself with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    memory = " (the kernel does that for want of memory)" if exit_code == -signal.SIGKILL else ""
    return f"was killed by {name}{memory}"


def error_of(ending: Ending) -> str | None:
    """The name of what went wrong, for metrics; None if nothing did."""
    match ending:
        case Failure():
            return ending.error_type
        case Stopped(why):
            return why.value
        case _:
            return None
