"""What an exception of a handler means: a failure of some class, or a wish to run later."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from brokerjobs import errors
from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import texts
from brokerjobs.rules.durations import show_duration

NAME_LIMIT: Final = 200
MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 16_000


class FailureClass(StrEnum):
    """What a failure asks for."""

    TEMPORARY = "temporary"  # try again, within bounds
    INVALID = "invalid"  # fail at once: it can never succeed
    POLICY = "policy"  # not here: find a qualified worker, or stop
    UNSAFE = "unsafe"  # unknown outcome: review
    DEADLINE = "deadline"  # decided by the ledger: too late
    EXHAUSTED = "exhausted"  # decided by the ledger: no attempt is left


# What a job type may say of an exception; the other classes are the ledger's to decide.
DECLARABLE: Final = frozenset({FailureClass.TEMPORARY, FailureClass.INVALID, FailureClass.POLICY, FailureClass.UNSAFE})

FailureMapping: TypeAlias = Mapping[type[BaseException], FailureClass | str]

_SIGNALS: Final[FailureMapping] = {
    errors.TemporaryFailure: FailureClass.TEMPORARY,
    errors.InvalidJob: FailureClass.INVALID,
    errors.PolicyRejected: FailureClass.POLICY,
    errors.UnknownOutcome: FailureClass.UNSAFE,
    errors.DidNotHappen: FailureClass.TEMPORARY,  # of an effect: it can be tried again
    # The handler's, though not raised as a signal: the same result is too large again next time.
    errors.ResultTooLarge: FailureClass.INVALID,
    # As `_is_no_signal` says, only of the job's own result: the same handler would give the same again.
    errors.InvalidResult: FailureClass.INVALID,
}
# What `ctx.artifacts.put` was given cannot be staged, and the same handler would give it again.  A default: a type may
# map them, and of one that is not repeatable nothing is known of what the handler had done before (rule R8).
_NEVER_STAGED: Final = (errors.InvalidArtifact, errors.ArtifactTooLarge, errors.ArtifactNameUsed)
_RESULTS: Final = (errors.InvalidResult, errors.ResultTooLarge)
# Of several failures at once the one that forbids most decides.
_GRAVITY: Final = (FailureClass.UNSAFE, FailureClass.INVALID, FailureClass.POLICY, FailureClass.TEMPORARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How an attempt failed; `classified` says whether its type or its handler chose the class."""

    failure_class: FailureClass
    classified: bool
    error_type: str
    message: str
    traceback: str = ""
    retry_after: timedelta | None = None
    returned: bool = False
    """The handler gave its result, which was refused: whatever it does has been done."""

    def as_data(self) -> dict[str, Any]:
        """The failure as JSON values, durations in seconds: the ledger's form."""
        data = {
            "class": self.failure_class.value,
            "classified": self.classified,
            "type": self.error_type,
            "message": self.message,
            "traceback": self.traceback,
            "retry_after": None if self.retry_after is None else self.retry_after.total_seconds(),
        }
        return {**data, "returned": True} if self.returned else data


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run again at `until` (aware)."""

    until: datetime


def classify(exc: BaseException, mapping: FailureMapping, *, repeatable: bool) -> Failure | Snoozed:
    """What `exc`, raised by a handler of a type with this `mapping`, means.

    Along the class's MRO the most specific entry of `mapping` or of our own signals decides.  An exception
    group is what its exceptions are: classified only if all of them are, and then the gravest.  Of a repeatable type
    what can never be staged as an artifact is invalid, unless `mapping` says otherwise.  Anything else is unclassified:
    temporary if the type is repeatable, else unsafe.  So is an exception whose own code raises when it is looked at;
    none of that is ever raised here.
    """
    unclassified = FailureClass.TEMPORARY if repeatable else FailureClass.UNSAFE
    try:
        return _classified(exc, mapping, unclassified, repeatable=repeatable)
    except BaseException as error:  # noqa: BLE001  # from __notes__, a metaclass, or groups in groups without end
        message = f"nothing can be said of this exception: looking at it raised {name_of(type(error))}"
        kind = texts.first_part(name_of(type(exc)), NAME_LIMIT)
        return Failure(failure_class=unclassified, classified=False, error_type=kind, message=message)


def _classified(
    exc: BaseException, mapping: FailureMapping, unclassified: FailureClass, *, repeatable: bool
) -> Failure | Snoozed:
    leaves = _leaves(exc, mapping)
    wishes = [until for leaf in leaves if (until := _until(leaf)) is not None]
    if len(wishes) == len(leaves):
        return Snoozed(max(wishes))
    found = [
        _declared(leaf, mapping) or (_by_default(leaf) if repeatable else None)
        for leaf in leaves
        if _until(leaf) is None
    ]
    classes = {one for one in found if one is not None}
    classified = len(classes) > 0 and None not in found
    asked = [_retry_after(leaf) for leaf in leaves]
    return Failure(
        failure_class=min(classes, key=_GRAVITY.index) if classified else unclassified,
        classified=classified,
        error_type=texts.first_part(name_of(type(exc)), NAME_LIMIT),
        message=texts.first_part(message_of(exc), MESSAGE_LIMIT),
        traceback=texts.last_part("".join(traceback.format_exception(exc)), TRACEBACK_LIMIT),
        retry_after=max((wait for wait in asked if wait is not None), default=None),
        returned=any(isinstance(leaf, _RESULTS) and leaf.returned for leaf in leaves),
    )


def checked_mapping(mapping: FailureMapping, *, job_type: str) -> dict[type[BaseException], FailureClass]:
    """What a job type declares with `failures=`, checked; raises ConfigurationError."""
    checked: dict[type[BaseException], FailureClass] = {}
    problems: list[str] = []
    for kind, declared in cast("Mapping[object, object]", mapping).items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            problems.append(f"{kind!r} is not an exception class")
        elif kind in _SIGNALS or issubclass(kind, errors.Snooze):
            problems.append(f"{name_of(kind)} says itself what it means")
        elif declared not in DECLARABLE:
            known = ", ".join(repr(one.value) for one in _GRAVITY)
            problems.append(f"{name_of(kind)}: {declared!r} is not one of {known}")
        else:
            checked[kind] = FailureClass(cast("str", declared))
    if problems:
        message = f"failures= of job type {job_type!r}:"
        raise ConfigurationError(message, problems=tuple(problems))
    return checked


def time_limit_failure(limit: timedelta, *, repeatable: bool) -> Failure:
    """The failure of an attempt that was still running at its time limit."""
    return Failure(
        failure_class=FailureClass.TEMPORARY if repeatable else FailureClass.UNSAFE,
        classified=False,
        error_type="TimeLimitExceeded",
        message=f"the handler had not ended after its time limit of {show_duration(limit)}",
    )


def name_of(kind: type[BaseException]) -> str:
    """The name of an exception class as shown: `ValueError`, `httpx.ConnectError`, `InvalidJob`."""
    own = kind.__module__ in ("builtins", errors.__name__)  # no set: a strange one may be unhashable
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def message_of(exc: BaseException) -> str:
    """What an exception says, uncut; what its own `__str__` raises is said instead."""
    try:
        return str(exc)
    except BaseException as error:  # noqa: BLE001  # a broken __str__ must not hide the failure, nor end the worker
        return f"(str() of it raised {name_of(type(error))})"


def _leaves(exc: BaseException, mapping: FailureMapping) -> list[BaseException]:
    if _declared(exc, mapping) is None and isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        return [leaf for part in group.exceptions for leaf in _leaves(part, mapping)]
    return [exc]


def _is_no_signal(exc: BaseException) -> bool:
    """Is it a result that the handler read or was given, and not the one that it gave?"""
    return isinstance(exc, errors.InvalidResult) and not exc.returned


def _declared(exc: BaseException, mapping: FailureMapping) -> FailureClass | None:
    signals = {} if _is_no_signal(exc) else _SIGNALS
    for kind in type(exc).__mro__:
        found = mapping.get(kind) or signals.get(kind)
        if found is not None:
            return FailureClass(found)
    return None


def _by_default(exc: BaseException) -> FailureClass | None:
    """What it means if neither its type nor the handler says so."""
    return FailureClass.INVALID if isinstance(exc, _NEVER_STAGED) else None


def _until(exc: BaseException) -> datetime | None:
    """The wish of a Snooze; None for one of a subclass that has not called its `__init__`."""
    until: object = getattr(exc, "until", None) if isinstance(exc, errors.Snooze) else None
    return until if isinstance(until, datetime) and until.utcoffset() is not None else None


def _retry_after(exc: BaseException) -> timedelta | None:
    """The wish of a TemporaryFailure, under the same condition."""
    wait: object = getattr(exc, "retry_after", None) if isinstance(exc, errors.TemporaryFailure) else None
    return wait if isinstance(wait, timedelta) else None
