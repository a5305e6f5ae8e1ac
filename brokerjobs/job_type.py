"""Job types: a name, payload and result models, and terms, shared by producers and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast, overload
from weakref import WeakValueDictionary

from brokerjobs import errors, handlers
from brokerjobs.model_walk import Oversized, Unfit
from brokerjobs.rules import names, need_problems, templates, texts
from brokerjobs.rules.failures import checked_mapping
from brokerjobs.rules.needs import Exclusive, Limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from brokerjobs.context import Finding, JobContext, ProcessJobContext, ReviewContext, SyncJobContext
    from brokerjobs.model_json import ModelJson
    from brokerjobs.rules.failures import FailureClass, FailureMapping
    from brokerjobs.rules.needs import Need
    from brokerjobs.rules.terms import Terms

P = TypeVar("P")
R = TypeVar("R")

# UTF-8 JSON bytes, as sent; larger data belongs in artifacts.
PAYLOAD_LIMIT: Final = 262_144
RESULT_LIMIT: Final = 262_144
KEY_LIMIT: Final = 255
TAGS_LIMIT: Final = 8_192

# Lanes of a queue: served 8 : 3 : 1 while each has jobs.
Priority: TypeAlias = Literal["high", "normal", "low"]
PRIORITIES: Final = ("high", "normal", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is said of a job type when it is declared; the models are anything that pydantic can describe."""

    namespace: str
    name: str
    payload_model: Any
    result_model: Any
    terms: Terms
    failures: FailureMapping


class JobType(Generic[P, R]):
    """One kind of job, made by `App.job_type` and `App.job`; its declaration does not change.

    Raises ConfigurationError for a name, model or failure class that cannot be.
    """

    def __init__(self, declaration: Declaration) -> None:
        if problem := names.job_type_problem(declaration.name):
            raise errors.ConfigurationError(problem)
        self.namespace: Final = declaration.namespace
        self.name: Final = declaration.name
        self.payload_model: Final = declaration.payload_model
        self.result_model: Final = declaration.result_model
        self.terms: Final = declaration.terms
        self.failures: Final[Mapping[type[BaseException], FailureClass]] = checked_mapping(
            declaration.failures, job_type=declaration.name
        )
        self._payloads: ModelJson[P] = _model_json(declaration, "payload", declaration.payload_model)
        _check_templates(self.name, self.terms, self._payloads)
        self._results: ModelJson[R] = _model_json(declaration, "result", declaration.result_model)
        self._handler: handlers.Handler | None = None
        self._reconciler: handlers.Handler | None = None

    def __repr__(self) -> str:
        return f"<JobType {self.namespace}/{self.name}>"

    @overload
    def handler(self, *, pool: Literal["process"]) -> ProcessDecorator[P, R]: ...
    @overload
    def handler(self, *, pool: Literal["thread"]) -> ThreadDecorator[P, R]: ...
    @overload
    def handler(
        self, function: Callable[[P, JobContext], Awaitable[R]], /
    ) -> Callable[[P, JobContext], Awaitable[R]]: ...
    @overload
    def handler(self, function: Callable[[P], Awaitable[R]], /) -> Callable[[P], Awaitable[R]]: ...
    @overload
    def handler(self, function: Callable[[P, SyncJobContext], R], /) -> Callable[[P, SyncJobContext], R]: ...
    @overload
    def handler(self, function: Callable[[P], R], /) -> Callable[[P], R]: ...
    def handler(self, function: Callable[..., Any] | None = None, *, pool: str | None = None) -> Any:
        """Register the handler, as a decorator; it takes the payload, and the context if it has a second parameter.

        `pool="process"`, for a `def`, runs it in a process that can be killed; without, a `def` runs in a thread.
        Raises ConfigurationError for another shape, and for a second handler.
        """
        if function is None:
            return partial(self.register, pool=pool)
        return self.register(function, pool=pool)

    def register(self, function: Callable[..., Any], *, pool: str | None = None) -> Callable[..., Any]:
        """As `handler`, called."""
        handler = handlers.handler_of(function, job_type=self.name, pool=pool)
        if self._handler is not None:
            message = f"job type {self.name!r} has two handlers: {self._handler.name} and {handler.name}; keep one"
            raise errors.ConfigurationError(message)
        self._handler = handler
        if handler.runs_in is handlers.RunsIn.PROCESS:
            in_processes[self.namespace, self.name] = self
        return function

    @overload
    def reconciler(
        self, function: Callable[[P, ReviewContext], Awaitable[Finding[R]]], /
    ) -> Callable[[P, ReviewContext], Awaitable[Finding[R]]]: ...
    @overload
    def reconciler(
        self, function: Callable[[P, ReviewContext], Finding[R]], /
    ) -> Callable[[P, ReviewContext], Finding[R]]: ...
    def reconciler(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the reconciler, as a decorator: it asks the outside what became of a job that is in review.

        Raises ConfigurationError for another shape than `(payload)` or `(payload, ctx)`, and for a second one.
        """
        reconciler = handlers.handler_of(function, job_type=self.name)
        if self._reconciler is not None:
            message = f"job type {self.name!r} has two reconcilers: {self._reconciler.name} and {reconciler.name}"
            raise errors.ConfigurationError(message)
        self._reconciler = reconciler
        return function

    @property
    def reconciled_by(self) -> handlers.Handler | None:
        """The reconciler that this process has for the type."""
        return self._reconciler

    @property
    def handled_by(self) -> handlers.Handler | None:
        """The handler that this process has for the type, if its module was imported."""
        return self._handler

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the payload model's JSON schema without its descriptions."""
        return self._payloads.fingerprint

    def encode_payload(self, payload: P) -> bytes:
        """The payload as UTF-8 JSON that comes back equal; raises InvalidPayload or PayloadTooLarge."""
        try:
            return self._payloads.encode(payload, PAYLOAD_LIMIT)
        except Unfit as unfit:
            raise errors.InvalidPayload(job_type=self.name, path=unfit.path, problem=unfit.problem) from unfit
        except Oversized as over:
            raise errors.PayloadTooLarge(job_type=self.name, size=over.size, limit=PAYLOAD_LIMIT) from over

    def decode_payload(self, data: str | bytes) -> P:
        """The payload that JSON says; raises InvalidPayload."""
        try:
            return self._payloads.decode(data)
        except Unfit as unfit:
            raise errors.InvalidPayload(job_type=self.name, path=unfit.path, problem=unfit.problem) from unfit

    def encode_result(self, result: R) -> bytes:
        """The result as UTF-8 JSON that comes back equal; raises InvalidResult or ResultTooLarge."""
        try:
            return self._results.encode(result, RESULT_LIMIT)
        except Unfit as unfit:
            raise errors.InvalidResult(
                job_type=self.name, path=unfit.path, problem=unfit.problem, returned=True
            ) from unfit
        except Oversized as over:
            raise errors.ResultTooLarge(job_type=self.name, size=over.size, limit=RESULT_LIMIT, returned=True) from over

    def decode_result(self, data: str | bytes) -> R:
        """The result that JSON says; raises InvalidResult."""
        try:
            return self._results.decode(data)
        except Unfit as unfit:
            raise errors.InvalidResult(job_type=self.name, path=unfit.path, problem=unfit.problem) from unfit

    def as_data(self) -> dict[str, Any]:
        """The type as the ledger registers it: name, terms with durations in seconds, fingerprint."""
        return {"name": self.name, **self.terms.as_data(), "fingerprint": self.fingerprint}


# Where a child process, which has imported what its worker has, finds the types whose handlers it runs.
in_processes: Final[WeakValueDictionary[tuple[str, str], JobType[Any, Any]]] = WeakValueDictionary()


class ProcessDecorator(Protocol[P, R]):
    """`@TYPE.handler(pool="process")`."""

    @overload
    def __call__(self, function: Callable[[P, ProcessJobContext], R], /) -> Callable[[P, ProcessJobContext], R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> Callable[[P], R]: ...


class ThreadDecorator(Protocol[P, R]):
    """`@TYPE.handler(pool="thread")`."""

    @overload
    def __call__(self, function: Callable[[P, SyncJobContext], R], /) -> Callable[[P, SyncJobContext], R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> Callable[[P], R]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Generic[P]):
    """A job to submit: `key` makes it idempotent within its type, times are aware or counted from now.

    `needs` are added to those of its type.  Raises SubmissionRefused for what of it cannot be.
    """

    payload: P = field(kw_only=False)
    key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    not_before: datetime | timedelta | None = None
    deadline: datetime | timedelta | None = None
    priority: Priority = "normal"
    needs: Sequence[Need] = ()

    def __post_init__(self) -> None:
        for problem in _submission_problems(self):
            raise errors.SubmissionRefused(problem)


def _submission_problems(submission: Submission[Any]) -> Iterator[str]:
    yield from key_problems(submission.key)
    if submission.tags != {}:
        yield from _tag_problems(submission.tags)
    if submission.priority not in PRIORITIES:
        yield f"priority={texts.shown(submission.priority)} is none of {', '.join(PRIORITIES)}"
    if submission.needs != ():
        yield from need_problems.problems(submission.needs)
    for name in ("not_before", "deadline"):
        value: object = getattr(submission, name)
        if not (value is None or isinstance(value, (datetime, timedelta))):
            yield f"{name}={texts.shown(value)} is no datetime, and no timedelta from now"
        elif isinstance(value, datetime) and value.utcoffset() is None:
            yield f"{name}={value!r} has no time zone; use an aware datetime, or a timedelta from now"


def key_problems(key: object) -> Iterator[str]:
    """What is wrong with an idempotency key; nothing if there is none."""
    if key is None:
        return
    if not isinstance(key, str):
        yield f"key={texts.shown(key)} is not a text of 1 to {KEY_LIMIT} characters"
    elif not 0 < len(key) <= KEY_LIMIT:
        yield f"key={texts.shown(key)} has {len(key)} characters, not 1 to {KEY_LIMIT}"
    elif texts.storable(key) != key:
        yield f"key={key!r} has a NUL or half a character, which PostgreSQL cannot store"


def _tag_problems(tags: object) -> Iterator[str]:
    if not isinstance(tags, Mapping):
        yield f"tags={texts.shown(tags)} are not a mapping of texts to texts"
        return
    pairs = cast("Mapping[object, object]", tags)
    for key, value in pairs.items():
        for what, text in (("the name of a tag,", key), (f"tag {texts.shown(key, 40)}:", value)):
            if not isinstance(text, str):
                yield f"{what} {texts.shown(text)} is not a text"
            elif texts.storable(text) != text:
                yield f"{what} {text!r:.80} has a NUL or half a character, which PostgreSQL cannot store"
    if (size := len(json.dumps(dict(pairs), ensure_ascii=False))) > TAGS_LIMIT:
        yield f"tags are {size} characters of JSON, over the limit of {TAGS_LIMIT}; they are to find jobs by"


def _check_templates(name: str, terms: Terms, payloads: ModelJson[Any]) -> None:
    """Refuses resources that no payload can name."""
    asked = {str(need): templates.fields_of(need.name) for need in terms.needs if isinstance(need, (Exclusive, Limit))}
    if not any(asked.values()):
        return
    schema = payloads.schema_as_written()
    problems = [
        f"need {need}: {problem}"
        for need, fields in asked.items()
        for one in fields
        if (problem := templates.field_problem(one, schema))
    ]
    if problems:
        message = f"job type {name!r}:"
        raise errors.ConfigurationError(message, problems=tuple(problems))


def _model_json(declaration: Declaration, what: str, model: Any) -> ModelJson[Any]:
    # pydantic takes two thirds of the time to import all this, and whoever only talks to the ledger needs none of it.
    from brokerjobs.model_json import ModelJson  # noqa: PLC0415

    try:
        return ModelJson(model)
    except Exception as error:
        message = f"job type {declaration.name!r}: pydantic cannot describe its {what} type {model!r}: {error}"
        raise errors.ConfigurationError(message) from error
