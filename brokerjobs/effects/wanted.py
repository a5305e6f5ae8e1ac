"""What a handler says of an effect, checked; and what its call takes, returns and raises."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from brokerjobs.errors import ConfigurationError, DidNotHappen, InvalidResult, ResultTooLarge
from brokerjobs.job_type import RESULT_LIMIT
from brokerjobs.model_json import ModelJson
from brokerjobs.model_walk import Oversized, Unfit
from brokerjobs.rules import names, texts
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.failures import message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.context import EffectOptions

_REFERENCE_LIMIT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a handler says of an effect."""

    returns: Any
    repeatable: bool
    key_valid_for: timedelta | None
    time_limit: timedelta | None
    did_not_happen: tuple[type[BaseException], ...]


def wanted(name: str, returns: Any, options: EffectOptions) -> Wanted:
    """What the keywords of an effect say; raises ConfigurationError for a keyword that is missing or unknown."""
    given = cast("dict[str, Any]", dict(options))
    known = {"repeatable", "key_valid_for", "time_limit", "did_not_happen"}
    found = [f"{option}= is not known" for option in sorted(given.keys() - known)]
    if not isinstance(given.get("repeatable"), bool):
        found.append(
            "repeatable= is missing: may it be done again, with the same key, when nobody knows whether it happened? "
            "No default would be safe"
        )
    if found:
        message = f"effect {name!r}:"
        raise ConfigurationError(message, problems=tuple(found))
    return Wanted(
        returns=returns,
        repeatable=given["repeatable"],
        key_valid_for=given.get("key_valid_for"),
        time_limit=given.get("time_limit"),
        did_not_happen=given.get("did_not_happen", ()),
    )


@dataclass(frozen=True, slots=True)
class Call:
    """One effect of an attempt, from its intent on."""

    name: str
    wanted: Wanted
    limit_seconds: float
    model: ModelJson[Any]

    @property
    def limit(self) -> str:
        """Its time limit in words."""
        return show_duration(timedelta(seconds=self.limit_seconds))


def problems(name: str, wanted: Wanted, limit: timedelta, lease_seconds: float) -> list[str]:
    """What is wrong with an effect; each problem a sentence."""
    found: list[str] = []
    if problem := names.effect_problem(name):
        found.append(problem)
    if limit <= timedelta(0):
        found.append(f"time_limit={show_duration(limit)} is no time")
    elif limit.total_seconds() > lease_seconds:
        found.append(
            f"its time limit of {show_duration(limit)} is longer than the lease of {lease_seconds:g} s, which must "
            "outlast the call; declare the job type with a longer lease="
        )
    if wanted.key_valid_for is not None and not wanted.repeatable:
        found.append("key_valid_for= is for repeatable=True: an effect that may not be repeated is never done again")
    elif wanted.key_valid_for is not None and wanted.key_valid_for < limit:
        found.append(f"key_valid_for={show_duration(wanted.key_valid_for)} is shorter than its time limit")
    return found


def takes_key(name: str, call: Callable[..., Any]) -> bool:
    """Whether `call` has one parameter that must be given: the key."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return True
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    if len(needed) > 1 or any(one.kind is one.KEYWORD_ONLY for one in needed):
        message = f"effect {name!r}: its call must take nothing, or the idempotency key alone"
        raise ConfigurationError(message)
    return len(needed) == 1


def says_no(error: BaseException, wanted: Wanted) -> bool:
    """Does this exception of the call mean that nothing happened?"""
    return isinstance(error, (DidNotHappen, *wanted.did_not_happen))


def words(error: BaseException) -> str:
    """An exception, as the record shows it."""
    return texts.first_part(f"{type(error).__name__}: {message_of(error)}", _REFERENCE_LIMIT)


def encoded(effect: Call, value: object, job_type: str) -> tuple[str | None, Exception | None]:
    """What the call returned as JSON, or why it cannot be kept: it happened all the same."""
    try:
        return effect.model.encode(value, RESULT_LIMIT).decode(), None
    except Unfit as unfit:
        problem = f"effect {effect.name!r} happened, and returned what it does not declare: {unfit.problem}"
        return None, InvalidResult(job_type=job_type, path=unfit.path, problem=problem)
    except Oversized as over:
        return None, ResultTooLarge(job_type=f"{job_type} (effect {effect.name})", size=over.size, limit=RESULT_LIMIT)


@lru_cache(maxsize=1024)
def _cached(model: Any) -> ModelJson[Any]:
    return ModelJson(model)


def model_of(returns: Any) -> ModelJson[Any]:
    """The model of what a call returns; raises ConfigurationError for what pydantic cannot describe."""
    model = cast("Any", type(None) if returns is None else returns)
    try:
        return _cached(model) if _is_hashable(model) else ModelJson(model)
    except Exception as error:
        message = f"returns={returns!r}: pydantic cannot describe it: {error}"
        raise ConfigurationError(message) from error


def _is_hashable(model: object) -> bool:
    try:
        hash(model)
    except TypeError:
        return False
    return True
