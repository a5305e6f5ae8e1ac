"""What a handler function is: its shape is read once, at registration."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


class RunsIn(Enum):
    """Where a handler runs."""

    TASK = "task"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function that runs attempts: called with the payload, and with the context if it takes one."""

    function: Callable[..., Any]
    is_async: bool
    takes_context: bool
    name: str
    runs_in: RunsIn


def handler_of(function: Callable[..., Any], *, job_type: str, pool: str | None = None) -> Handler:
    """Read the shape of `function`, which runs in the `pool` asked for, "thread" or "process".

    Raises ConfigurationError if it is not `(payload)` or `(payload, ctx)`, or cannot run there.
    """
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004  # bound
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    if problem := _problem(function, is_async=is_async) or _pool_problem(function, pool, is_async=is_async):
        message = f"{name} cannot be the handler of job type {job_type!r}: {problem}"
        raise ConfigurationError(message)
    return Handler(
        function=function,
        is_async=is_async,
        takes_context=len(_positional(function)) == 2,
        name=name,
        runs_in=RunsIn.TASK if is_async else RunsIn(pool or "thread"),
    )


def annotated_types(function: Callable[..., Any], *, job_type: str) -> tuple[Any, Any]:
    """The payload and result types that the annotations of `function` say; raises ConfigurationError without them."""
    handler = handler_of(function, job_type=job_type)
    names = [_positional(function)[0].name, "return"]
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    if missing := [f"{name!r}" for name in names if name not in annotations]:
        message = (
            f"the handler {handler.name} of job type {job_type!r} has no annotation for {' and '.join(missing)}; "
            "write `(payload: Payload, …) -> Result`, or `-> None`, since these are the job type's models"
        )
        raise ConfigurationError(message)
    # Only these two: the context's type may well be imported for type checkers alone.
    only = SimpleNamespace(__annotations__={name: annotations[name] for name in names})
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        found = typing.get_type_hints(only, globalns=known, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        message = (
            f"the annotations of the handler {handler.name} of job type {job_type!r} cannot be read: {error}; import "
            "the payload and result types at the top of its module, not inside a function or `if TYPE_CHECKING:`"
        )
        raise ConfigurationError(message) from error
    return found[names[0]], found[names[1]]


def _problem(function: Callable[..., Any], *, is_async: bool) -> str | None:
    whole = inspect.unwrap(function)
    if inspect.isgeneratorfunction(whole) or inspect.isasyncgenfunction(whole):
        return "it is a generator; a handler returns its result once"
    if not is_async and inspect.iscoroutinefunction(whole):
        return "a decorator has made the async function a sync one; make the decorator's wrapper `async def`"
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        return "it has a keyword-only parameter without a default"
    if len(_positional(function)) not in {1, 2} or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return "it must take `(payload)` or `(payload, ctx)`"
    return None


def _pool_problem(function: Callable[..., Any], pool: str | None, *, is_async: bool) -> str | None:
    if pool not in {None, "thread", "process"}:
        return f"pool={pool!r} is neither 'thread' nor 'process'"
    if pool is not None and is_async:
        return f"pool={pool!r} is for `def`; an `async def` runs on the event loop"
    if pool == "process" and "<locals>" in getattr(function, "__qualname__", "<locals>"):
        return "with pool='process' it must be defined at the top of a module, which the processes import"
    return None


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [one for one in parameters if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
