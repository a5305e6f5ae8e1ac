"""An application: its namespace and its job types."""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Required, TypedDict, TypeVar, Unpack, cast, overload

from brokerjobs import handlers
from brokerjobs.errors import ConfigurationError, JobTypeConflict
from brokerjobs.job_type import Declaration, JobType
from brokerjobs.rules import names
from brokerjobs.rules.terms import Terms, differences

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import timedelta

    from brokerjobs.client import Client, SyncClient
    from brokerjobs.context import JobContext, ProcessJobContext, SyncJobContext
    from brokerjobs.rules.failures import FailureMapping
    from brokerjobs.rules.needs import Need
    from brokerjobs.rules.retries import RetryPolicy

P = TypeVar("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What may be said of a job type beside its name and models; defaults are those of `Terms`."""

    repeatable: Required[bool]
    queue: str
    lease: timedelta
    time_limit: timedelta
    retry: RetryPolicy
    placement_deadline: timedelta
    needs: Sequence[Need]
    failures: FailureMapping


class JobOptions(Options, total=False):
    """What may be said where type and handler are declared in one step."""

    pool: Literal["thread", "process"]


class App:
    """The job types of one namespace; the same namespace elsewhere is the same application.

    Raises ConfigurationError for a name that cannot be.
    """

    def __init__(self, namespace: str) -> None:
        if problem := names.namespace_problem(namespace):
            raise ConfigurationError(problem)
        self.namespace: Final = namespace
        self._types: dict[str, JobType[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"App({self.namespace!r})"

    @property
    def types(self) -> Mapping[str, JobType[Any, Any]]:
        """The declared job types, by name."""
        return MappingProxyType(self._types)

    @overload
    def job_type(self, name: str, payload: type[P], result: None, **options: Unpack[Options]) -> JobType[P, None]: ...
    @overload
    def job_type(self, name: str, payload: type[P], result: type[R], **options: Unpack[Options]) -> JobType[P, R]: ...
    def job_type(self, name: str, payload: Any, result: Any, **options: Unpack[Options]) -> JobType[Any, Any]:
        """Declare a job type; the same declaration again gives the same object.

        Raises ConfigurationError, and JobTypeConflict for a declaration that differs from an earlier one.
        """
        made: JobType[Any, Any] = JobType(
            Declaration(
                namespace=self.namespace,
                name=name,
                payload_model=payload,
                result_model=type(None) if result is None else result,
                terms=_terms(name, options),
                failures=options.get("failures", {}),
            )
        )
        there = self._types.setdefault(name, made)
        if problems := _conflicts(there, made):
            raise JobTypeConflict(job_type=name, problems=problems)
        return there

    def job(self, name: str, **options: Unpack[JobOptions]) -> JobDecorator:
        """Declare a job type and its handler in one step: the models are the function's annotations.

        `pool="process"`, for a `def`, runs it in a process that can be killed; without, a `def` runs in a thread.
        """
        given = cast("dict[str, Any]", dict(options))
        pool = given.pop("pool", None)
        return JobDecorator(self, name, cast("Options", given), pool)

    def client(self, *, submitted_by: str, database_url: str | None = None, broker_url: str | None = None) -> Client:
        """A client that submits in the name of `submitted_by`, open inside `async with`; URLs default to the settings.

        Raises ConfigurationError.
        """
        # Whoever declares job types imports this module, and needs no driver for that.
        from brokerjobs.client import Client  # noqa: PLC0415
        from brokerjobs.client.options import client_options  # noqa: PLC0415

        return Client(client_options(submitted_by, database_url, broker_url))

    def sync_client(
        self, *, submitted_by: str, database_url: str | None = None, broker_url: str | None = None
    ) -> SyncClient:
        """As `client`, for code that does not await: any threads may share it, and a process that forks may have it.

        Open until its `close()`, or the end of a `with` block. Raises ConfigurationError.
        """
        from brokerjobs.client import SyncClient  # noqa: PLC0415
        from brokerjobs.client.options import client_options  # noqa: PLC0415

        return SyncClient(client_options(submitted_by, database_url, broker_url))


class JobDecorator:
    """Turns a handler into its job type."""

    def __init__(self, app: App, name: str, options: Options, pool: str | None) -> None:
        self._app = app
        self._pool = pool
        self._name = name
        self._options = options
        _terms(name, options)  # so that what is wrong is said at the line that says it

    @overload
    def __call__(self, function: Callable[[P, JobContext], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P, SyncJobContext], R], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P, ProcessJobContext], R], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> JobType[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> JobType[Any, Any]:
        """Declare the type and register `function`."""
        payload, result = handlers.annotated_types(function, job_type=self._name)
        made: JobType[Any, Any] = self._app.job_type(self._name, payload, result, **self._options)
        made.register(function, pool=self._pool)
        return made


def _terms(name: str, options: Options) -> Terms:
    given = cast("dict[str, Any]", dict(options))
    known = Options.__annotations__
    problems: list[str] = []
    if "repeatable" not in given:
        problems.append(
            "repeatable= is missing: may a *started* attempt be done again blindly? True if doing it twice is "
            "harmless; False if not (an unknown outcome then goes to review). No default would be safe"
        )
    for option in given.keys() - known.keys():
        close = difflib.get_close_matches(option, known, n=1)
        problems.append(f"{option}= is not known{f'; did you mean {close[0]}=?' if close else ''}")
    if problems:
        message = f"job type {name!r}:"
        raise ConfigurationError(message, problems=tuple(sorted(problems)))
    given.pop("failures", None)
    try:
        return Terms(**given)
    except ConfigurationError as error:
        message = f"job type {name!r}:"
        raise ConfigurationError(message, problems=error.problems) from None


def _conflicts(first: JobType[Any, Any], second: JobType[Any, Any]) -> tuple[str, ...]:
    lines = list(differences(first.terms, second.terms))
    for what in ("payload_model", "result_model", "failures"):
        before, after = getattr(first, what), getattr(second, what)
        if before != after:
            lines.append(f"{what}: {before!r}, then {after!r}")
    return tuple(lines)
