"""A value of a model as JSON that the ledger can store and that comes back equal."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar, cast

import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from brokerjobs import model_walk as walk
from brokerjobs.model_walk import Oversized, Unfit

T = TypeVar("T")

# An escaped NUL: \u0000 after an even number of backslashes.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# A text that could be a date and time without a zone; what it really is, the decoded value says.
_MAYBE_NAIVE: Final = re.compile(rb'"\d{4}-\d\d-\d\d(?:[Tt _]\d\d:?\d\d[^"Zz+-]{0,20})?"')
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(one for one in range(256) if one not in b"[]{}")


class _Quiet(GenerateJsonSchema):
    # A default without a JSON form is no fault of a model: it is never sent as a schema.
    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {"skipped-choice", "non-serializable-default"}  # type: ignore[misc]  # declared as an instance's


class ModelJson(Generic[T]):
    """Encodes and decodes the values of one type that pydantic understands."""

    def __init__(self, model: Any) -> None:
        """Raise what pydantic raises for a type that it cannot describe."""
        self._adapter: pydantic.TypeAdapter[T] = pydantic.TypeAdapter(model)
        schema = self._adapter.json_schema(schema_generator=_Quiet)
        self.fingerprint = hashlib.sha256(_canonical(_without_prose(schema))).hexdigest()

    def schema_as_written(self) -> dict[str, Any]:
        """The JSON schema of what `encode` answers."""
        return self._adapter.json_schema(schema_generator=_Quiet, mode="serialization")

    def encode(self, value: T, limit: int) -> bytes:
        """The JSON of `value` in UTF-8; raises Unfit, or Oversized over `limit` bytes.

        What is answered decodes to an equal value, and PostgreSQL's jsonb takes it.
        """
        try:
            data = self._adapter.dump_json(value, by_alias=True, warnings=False)
        except Exception as error:  # noqa: BLE001  # a serializer of the user's may raise anything; it is explained
            _explain(value, error)
        if len(data) > limit:
            raise Oversized(len(data))
        _check_storable(value, data)
        try:
            back = self.decode(data)
        except Unfit as unfit:
            _refuse_not_finite(value, unfit)
            if (path := walk.first_huge_integer(value)) is not None:
                problem = f"the integer has more than {walk.DIGIT_LIMIT} digits"
                raise Unfit(path, problem) from unfit
            raise
        if difference := walk.first_difference(value, back):
            _refuse_not_finite(value, None)
            raise Unfit(*difference)
        return data

    def decode(self, data: str | bytes) -> T:
        """The value that JSON says; raises Unfit if the model refuses it, or a datetime in it has no zone."""
        try:
            value = self._adapter.validate_json(data, by_alias=True, by_name=True)
        except pydantic.ValidationError as error:
            raise _first_problem(error) from error
        except Exception as error:
            problem = f"its model raised {type(error).__name__}: {error}"
            raise Unfit("", problem) from error
        text = data.encode(errors="replace") if isinstance(data, str) else data
        if _MAYBE_NAIVE.search(text) and (path := walk.first_naive(value)) is not None:
            raise Unfit(path, "the datetime has no time zone; use an aware one, such as datetime.now(UTC)")
        return value


def _check_storable(value: object, data: bytes) -> None:
    if _deeper_than(data, walk.DEPTH_LIMIT):
        raise _too_deep(value)
    if b"\\u0000" in data and _NUL.search(data):
        raise Unfit(
            walk.first_nul(json.loads(data)) or "", "the text has a NUL (U+0000), which PostgreSQL cannot store"
        )
    if b"NaN" in data or b"Infinity" in data:
        try:
            json.loads(data, parse_constant=_refuse_constant)
        except ArithmeticError:
            _refuse_not_finite(value, None)
            raise Unfit("", "NaN and infinity are not JSON") from None


def _too_deep(value: object) -> Unfit:
    return Unfit(walk.first_deep(value) or "", f"it is nested deeper than {walk.DEPTH_LIMIT} levels")


def _refuse_constant(_name: str) -> NoReturn:
    raise ArithmeticError


def _refuse_not_finite(value: object, cause: Exception | None) -> None:
    if (path := walk.first_not_finite(value)) is not None:
        raise Unfit(path, "NaN and infinity are not JSON") from cause


def _explain(value: object, error: Exception) -> NoReturn:
    """Raise Unfit for a value that pydantic could not write."""
    text = str(error).removeprefix("Error serializing to JSON: ")
    if found := walk.first_not_text(value):
        raise Unfit(*found) from error
    if "Circular reference" in text:
        raise Unfit("", "it contains itself") from error
    if "depth exceeded" in text:
        raise _too_deep(value) from error
    raise Unfit(walk.first_of_type(value, text) or "", f"it cannot be written as JSON: {text}") from error


def _first_problem(error: pydantic.ValidationError) -> Unfit:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Unfit(walk.path_of(problems[0]["loc"]), problems[0]["msg"] + more)


def _deeper_than(data: bytes, limit: int) -> bool:
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", data).translate(_BRACKETS, _NOT_BRACKETS)
    # Each pass takes the innermost pairs away: as many passes as levels, each at the speed of C.
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _without_prose(schema: object) -> object:
    """The schema without descriptions, so that a better docstring is not another payload."""
    if isinstance(schema, dict):
        entries = cast("dict[str, object]", schema).items()
        return {key: _without_prose(one) for key, one in entries if key != "description" or not isinstance(one, str)}
    if isinstance(schema, list):
        return [_without_prose(one) for one in cast("list[object]", schema)]
    return schema


def _canonical(schema: object) -> bytes:
    return json.dumps(schema, sort_keys=True, separators=(",", ":")).encode()
