"""What went wrong, as an exit code and as words: one sentence what and why, one next command.

| code | meaning |
|---|---|
| 0 | done |
| 1 | unexpected: a fault of brokerjobs, or of a handler's process |
| 2 | usage: flags, ids, JSON on the command line |
| 3 | settings, or an application that cannot be imported |
| 4 | PostgreSQL, RabbitMQ or the artifact store gave no answer |
| 5 | schema or topology differ from what this code needs |
| 6 | not found |
| 7 | refused: by the job's state, or at the door |
| 8 | the job ended badly, stands in review, or was decided without a result; an artifact is another one |
| 9 | the login may not do this |
| 124 | timed out (`submit --wait`); the job goes on |

A worker that was told to drain ends with 0 (everything reported), 10 (something was released at the limit) or 11
(something is left to its lease); one that drained by itself, since too many handlers could not be stopped, with 12.
130: interrupted.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, cast

import typer

from brokerjobs import errors
from brokerjobs.cli import output
from brokerjobs.rules.texts import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExitCode(IntEnum):
    """The exit codes of every command, and of a worker that drained (10, 11, 12)."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    CONFIGURATION = 3
    UNREACHABLE = 4
    SCHEMA = 5
    NOT_FOUND = 6
    REFUSED = 7
    ENDED_BADLY = 8
    PERMISSION = 9
    RELEASED = 10
    LEFT_TO_LEASE = 11
    TO_BE_REPLACED = 12
    TIMED_OUT = 124
    BROKEN_PIPE = 141


class UsageError(errors.BrokerjobsError):
    """Something on the command line cannot be; `hint` is the next command, if not the command's help."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Refused(errors.BrokerjobsError):
    """Something could be done, but would lose what nobody said may be lost; `hint` is the next command."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class NotFound(errors.BrokerjobsError):
    """What an id names is not there; `hint` is the next command."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Unreachable(errors.LedgerUnavailable):
    """Another server than those of the settings gave no answer; `hint` is the next command."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ApplicationError(errors.ConfigurationError):
    """The user's application cannot be imported; `hint` is the next command."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is said of an error: `name` is for programs, `message` and `hint` for people."""

    code: ExitCode
    name: str
    message: str
    hint: str


# Of each error the first class that fits; all of them are of `brokerjobs.errors`.
_CODES: Final[tuple[tuple[type[Exception], ExitCode], ...]] = (
    (UsageError, ExitCode.USAGE),
    (errors.ConfigurationError, ExitCode.CONFIGURATION),
    (errors.SchemaMismatch, ExitCode.SCHEMA),
    (errors.LoginRefused, ExitCode.PERMISSION),
    (errors.LedgerUnavailable, ExitCode.UNREACHABLE),
    (errors.BrokerUnavailable, ExitCode.UNREACHABLE),
    (errors.PermissionDenied, ExitCode.PERMISSION),
    (errors.JobNotFound, ExitCode.NOT_FOUND),
    (NotFound, ExitCode.NOT_FOUND),
    (errors.ArtifactNotFound, ExitCode.NOT_FOUND),
    (errors.ArtifactGone, ExitCode.NOT_FOUND),
    (errors.RefusedMove, ExitCode.REFUSED),
    (Refused, ExitCode.REFUSED),
    (errors.SubmissionRefused, ExitCode.REFUSED),
    (errors.ArtifactNotReady, ExitCode.REFUSED),
    (errors.ArtifactNotVisible, ExitCode.REFUSED),
    (errors.AcknowledgementRefused, ExitCode.REFUSED),
    (errors.HashMismatch, ExitCode.ENDED_BADLY),
    (errors.ArtifactStoreUnavailable, ExitCode.UNREACHABLE),
    (errors.ArtifactStoreFull, ExitCode.UNREACHABLE),
    (errors.ArtifactStoreRefused, ExitCode.CONFIGURATION),
    (errors.JobFailed, ExitCode.ENDED_BADLY),
    (errors.JobCancelled, ExitCode.ENDED_BADLY),
    (errors.InReview, ExitCode.ENDED_BADLY),
    (errors.DecidedByPerson, ExitCode.ENDED_BADLY),
    (errors.ResultTimeout, ExitCode.TIMED_OUT),
)
_DATABASE_URL: Final = "BROKERJOBS_DATABASE_URL"
_BROKER_URL: Final = "BROKERJOBS_BROKER_URL"
_SHOW: Final = "brokerjobs jobs show {error.job_id}"
_SHOW_ARTIFACT: Final = "brokerjobs artifacts show {error.artifact_id}"
_STORE: Final = (
    "BROKERJOBS_ARTIFACTS__URL names the store, BROKERJOBS_ARTIFACTS__OPTIONS says how it is reached; brokerjobs "
    "doctor tries it"
)
_HINTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    *((kind, _SHOW) for kind in (errors.IdempotencyConflict, errors.RefusedMove, errors.JobFailed)),
    *((kind, _SHOW) for kind in (errors.JobCancelled, errors.DecidedByPerson, errors.ResultTimeout)),
    (errors.InReview, "brokerjobs review show {error.job_id}"),
    (errors.JobNotFound, "brokerjobs jobs list"),
    (errors.ArtifactNotFound, "brokerjobs artifacts list"),
    (errors.ArtifactNotVisible, "--unaccepted fetches it all the same"),
    *((kind, _SHOW_ARTIFACT) for kind in (errors.ArtifactGone, errors.ArtifactNotReady, errors.HashMismatch)),
    (errors.AcknowledgementRefused, _SHOW_ARTIFACT),
    *((kind, _STORE) for kind in (errors.ArtifactStoreUnavailable, errors.ArtifactStoreRefused)),
    (errors.UnknownJobType, "brokerjobs setup module:app"),
    (errors.KeyInFlight, "submit again"),
    (errors.ExpiredRecord, "submit it with another key, if it is to run again"),
    (errors.LedgerUnavailable, f"pg_isready tells whether PostgreSQL answers; {_DATABASE_URL} says where it should be"),
    (
        errors.BrokerUnavailable,
        f"rabbitmqctl ping tells whether RabbitMQ answers; {_BROKER_URL} says where it should be",
    ),
)
_BY_CODE: Final = {
    ExitCode.UNEXPECTED: "run it again with --debug, which shows the traceback",
    ExitCode.REFUSED: "mend it and submit again: nothing was recorded",
}
_SETTINGS: Final = "config/brokerjobs.toml lists every setting"
_MANY: Final = "brokerjobs jobs cancel --type"  # one job is cancelled by a producer, too
_OF_MANY: Final = ("queued_jobs", "cancel_queued")  # functions that it calls
# What a login needs to be granted for a command; a producer's right is the usual one.
_KINDS: Final = {
    "brokerjobs worker": "worker",
    "brokerjobs coordinator": "coordinator",
    "brokerjobs jobs list": "reader",
    "brokerjobs jobs show": "reader",
    "brokerjobs jobs explain": "reader",
    "brokerjobs queues": "reader",
    "brokerjobs queues list": "reader",
    "brokerjobs queues show": "reader",
    "brokerjobs queues pause": "operator",
    "brokerjobs queues resume": "operator",
    "brokerjobs workers": "reader",
    "brokerjobs artifacts list": "reader",
    "brokerjobs artifacts show": "reader",
    "brokerjobs artifacts orphans": "reader",
    "brokerjobs doctor": "reader",
    "brokerjobs review list": "reader",
    "brokerjobs review show": "reader",
    "brokerjobs review resolve": "operator",
    "brokerjobs dead list": "reader",
    "brokerjobs dead show": "reader",
    "brokerjobs dead replay": "operator",
    "brokerjobs dead discard": "operator",
    "brokerjobs jobs adopt": "operator",
    _MANY: "operator",
    "brokerjobs types list": "reader",
    "brokerjobs types show": "reader",
    "brokerjobs types pause": "operator",
    "brokerjobs types resume": "operator",
    "brokerjobs quarantine list": "reader",
    "brokerjobs quarantine show": "reader",
    "brokerjobs quarantine export": "reader",
    "brokerjobs status": "reader",
}
# typer exports the errors of its parser by no name but their child's.
_PARSER_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
_NO_DATABASE: Final = re.compile(r'database "[^"]*" does not exist')


def report(error: Exception, command: str, *, as_json: bool, debug: bool) -> ExitCode:
    """Say on stderr what went wrong in `command` and return the exit code for it."""
    complaint = complaint_of(error, command)
    if debug:
        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
    if as_json:
        said = {"code": complaint.name, "message": complaint.message, "hint": complaint.hint}
        sys.stderr.write(output.json_escaped(json.dumps(said, ensure_ascii=False)) + "\n")
    else:
        output.say("error: " + complaint.message.replace("\n", "\n  "))
        if complaint.hint:
            output.say(f"next: {complaint.hint}")
    return complaint.code


def complaint_of(error: Exception, command: str = "brokerjobs") -> Complaint:
    """What is said of `error`; of a group what is said of its first error, with all messages."""
    if isinstance(error, _PARSER_ERROR):
        return _of_parser(error)
    several = list(_flat(error))
    first = several[0]
    message = "\n".join(redacted(line) for one in several for line in _lines(one))
    code = next((code for kind, code in _CODES if isinstance(first, kind)), ExitCode.UNEXPECTED)
    if code is ExitCode.UNEXPECTED:
        message = f"unexpected {type(first).__name__}: {message}"
    hint = _hint(first, code, message, command) or f"{command} --help lists the flags; {_SETTINGS}"
    return Complaint(code, _name(first), message.removesuffix(f"; see `{hint}`"), hint)  # it is said once


def _of_parser(error: Exception) -> Complaint:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "brokerjobs")
    words = str(getattr(error, "format_message", error.__str__)()).replace(": Value error, ", ": ")
    return Complaint(ExitCode.USAGE, "usage", words, f"{command} --help")


def _flat(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for one in cast("ExceptionGroup[Exception]", error).exceptions:
            yield from _flat(one)
    else:
        yield error


def _lines(error: Exception) -> Iterator[str]:
    """What an error says, and for a failed job how each attempt ended."""
    yield str(error)
    yield from getattr(error, "__notes__", ())
    for attempt in error.attempts if isinstance(error, errors.JobFailed) else ():
        said = ": ".join(filter(None, (attempt.error_type, attempt.message)))
        yield f"attempt {attempt.number} on {attempt.worker}: {said}"


def _name(error: Exception) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__).lower()


def _hint(error: Exception, code: ExitCode, message: str, command: str) -> str:
    """Return the next command, "" for the help of `command`, which failed."""
    match error:
        case UsageError() | ApplicationError() | Refused() | NotFound() | Unreachable():
            return error.hint
        case errors.TopologyMismatch() if error.argument == "type":  # an exchange's: it may have bindings of others
            return f"rabbitmqadmin delete exchange name={error.queue}, then brokerjobs setup module:app"
        case errors.TopologyMismatch():
            return error.command.replace("QUEUE", error.queue)
        case errors.SchemaMismatch():
            return error.command
        case errors.LoginRefused():
            return f"psql with the same URL shows whether user and password are right; {_DATABASE_URL} has them"
        case errors.LedgerUnavailable() if _NO_DATABASE.search(message):
            return f"createdb makes a database; {_DATABASE_URL} names it"
        case errors.BrokerUnavailable() if "memory://" in message:
            return f"python -m brokerjobs.broker.memory SOCKET serves one; {_BROKER_URL} may name a RabbitMQ instead"
        case errors.PermissionDenied():
            if any(f"function {name}" in message for name in _OF_MANY):
                command = _MANY
            return _permission_hint(message, command)
        case _:
            template = next((hint for kind, hint in _HINTS if isinstance(error, kind)), _BY_CODE.get(code, ""))
            return template.format(error=error)


def _grant(command: str) -> str:
    """What lets a login do what `command` does."""
    if command == "brokerjobs setup":
        return "brokerjobs setup with the login that owns the ledger: the one that set it up first"
    return f"brokerjobs setup --grant {_KINDS.get(command, 'producer')}=LOGIN, with the login that owns the ledger"


def _permission_hint(message: str, command: str) -> str:
    """Return what lets a login of either server do what `command` does."""
    if "memory://" in message:
        return f"the socket is its user's alone; {_BROKER_URL} names it"
    if "database" in message or "ledger" in message:
        return _grant(command)
    if "refused the login" in message:
        return f"rabbitmqctl authenticate_user USER PASSWORD shows whether both are right; {_BROKER_URL} has them"
    return f"rabbitmqctl list_permissions shows who may what; {_BROKER_URL} names the user"
