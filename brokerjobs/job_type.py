"""Job types: a name, payload and result models, and terms, shared by producers and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

from brokerjobs import errors, handlers
from brokerjobs.model_walk import Oversized, Unfit
from brokerjobs.rules import names, texts
from brokerjobs.rules.failures import checked_mapping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from datetime import timedelta

    from brokerjobs.context import JobContext, SyncJobContext
    from brokerjobs.model_json import ModelJson
    from brokerjobs.rules.failures import FailureClass, FailureMapping
    from brokerjobs.rules.terms import Terms

P = TypeVar("P")
R = TypeVar("R")

# UTF-8 JSON bytes, as sent; larger data belongs in object storage.
PAYLOAD_LIMIT: Final = 262_144
RESULT_LIMIT: Final = 262_144
KEY_LIMIT: Final = 255
TAGS_LIMIT: Final = 8_192


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
        self._results: ModelJson[R] = _model_json(declaration, "result", declaration.result_model)
        self._handler: handlers.Handler | None = None

    def __repr__(self) -> str:
        return f"<JobType {self.namespace}/{self.name}>"

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
    def handler(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the handler, as a decorator; it takes the payload, and the context if it has a second parameter.

        Raises ConfigurationError for another shape, and for a second handler.
        """
        handler = handlers.handler_of(function, job_type=self.name)
        if self._handler is not None:
            message = f"job type {self.name!r} has two handlers: {self._handler.name} and {handler.name}; keep one"
            raise errors.ConfigurationError(message)
        self._handler = handler
        return function

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
            raise errors.InvalidResult(job_type=self.name, path=unfit.path, problem=unfit.problem) from unfit
        except Oversized as over:
            raise errors.ResultTooLarge(job_type=self.name, size=over.size, limit=RESULT_LIMIT) from over

    def decode_result(self, data: str | bytes) -> R:
        """The result that JSON says; raises InvalidResult."""
        try:
            return self._results.decode(data)
        except Unfit as unfit:
            raise errors.InvalidResult(job_type=self.name, path=unfit.path, problem=unfit.problem) from unfit

    def as_data(self) -> dict[str, Any]:
        """The type as the ledger registers it: name, terms with durations in seconds, fingerprint."""
        return {"name": self.name, **self.terms.as_data(), "fingerprint": self.fingerprint}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Generic[P]):
    """A job to submit: `key` makes it idempotent within its type, times are aware or counted from now.

    Raises SubmissionRefused for a key, tags or time that cannot be.
    """

    payload: P = field(kw_only=False)
    key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    not_before: datetime | timedelta | None = None
    deadline: datetime | timedelta | None = None

    def __post_init__(self) -> None:
        for problem in _submission_problems(self.key, self.tags):
            raise errors.SubmissionRefused(problem)
        for name, value in (("not_before", self.not_before), ("deadline", self.deadline)):
            if isinstance(value, datetime) and value.utcoffset() is None:
                message = f"{name}={value!r} has no time zone; use an aware datetime, or a timedelta from now"
                raise errors.SubmissionRefused(message)


def _submission_problems(key: object, tags: object) -> Iterator[str]:
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= KEY_LIMIT):
        yield f"key={key!r:.80} is not a text of 1 to {KEY_LIMIT} characters"
    if isinstance(key, str) and texts.storable(key) != key:
        yield f"key={key!r} has a NUL or half a character, which PostgreSQL cannot store"
    if tags == {}:
        return
    pairs = list(cast("Mapping[object, object]", tags).items()) if isinstance(tags, Mapping) else [(tags, tags)]
    if not all(isinstance(text, str) and texts.storable(text) == text for pair in pairs for text in pair):
        yield "tags are not a mapping of texts (without NUL) to texts"
    elif (size := len(json.dumps(dict(pairs), ensure_ascii=False))) > TAGS_LIMIT:
        yield f"tags are {size} characters of JSON, over the limit of {TAGS_LIMIT}; they are to find jobs by"


def _model_json(declaration: Declaration, what: str, model: Any) -> ModelJson[Any]:
    # pydantic takes two thirds of the time to import all this, and whoever only talks to the ledger needs none of it.
    from brokerjobs.model_json import ModelJson  # noqa: PLC0415

    try:
        return ModelJson(model)
    except Exception as error:
        message = f"job type {declaration.name!r}: pydantic cannot describe its {what} type {model!r}: {error}"
        raise errors.ConfigurationError(message) from error
