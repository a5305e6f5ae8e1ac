from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.app import App
from brokerjobs.errors import (
    ConfigurationError,
    InvalidPayload,
    InvalidResult,
    PayloadTooLarge,
    ResultTooLarge,
    SubmissionRefused,
)
from brokerjobs.job_type import JobType, Submission
from tests.hostile_values import HUGE, deep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from brokerjobs.context import JobContext


@dataclass(frozen=True)
class Charge:
    cents: int
    note: str = ""


@dataclass(frozen=True)
class Receipt:
    reference: str


def charge() -> JobType[Charge, Receipt]:
    return App("payments").job_type("payment.charge", Charge, Receipt, repeatable=False)


def test_payload__comes_back() -> None:
    assert charge().decode_payload(charge().encode_payload(Charge(5))) == Charge(5)
    assert charge().decode_result(charge().encode_result(Receipt("r")).decode()) == Receipt("r")


def test_payload__that_is_none_of_its_type_is_refused_with_the_type_and_the_path() -> None:
    with pytest.raises(
        InvalidPayload, match=r"payload of job type 'payment.charge' is invalid at cents: Input"
    ) as caught:
        charge().decode_payload('{"cents": "many"}')
    assert (caught.value.path, caught.value.job_type) == ("cents", "payment.charge")

    with pytest.raises(InvalidPayload, match="at top level: it cannot be written as JSON: AttributeError"):
        charge().encode_payload(Receipt("r"))  # type: ignore[arg-type]  # what a caller without a type checker does


def test_payload__over_its_limit_says_by_how_much_and_what_to_do() -> None:
    size = len(charge().encode_payload(Charge(5, "")))
    charge().encode_payload(Charge(5, "x" * (262_144 - size)))

    with pytest.raises(PayloadTooLarge, match=r"is 262145 bytes of JSON, 1 over the limit of 262144; keep .*artifact"):
        charge().encode_payload(Charge(5, "x" * (262_145 - size)))


def test_result__has_errors_of_its_own() -> None:
    with pytest.raises(
        InvalidResult, match=r"result of job type 'payment\.charge' is invalid at reference: the text has a NUL"
    ):
        charge().encode_result(Receipt("\0"))
    with pytest.raises(InvalidResult, match="at reference: Field required"):
        charge().decode_result("{}")
    with pytest.raises(ResultTooLarge, match=r"over the limit of 262144; keep .* artifact: .* ctx\.artifacts\.put"):
        charge().encode_result(Receipt("x" * 300_000))


def test_as_data__is_what_the_ledger_registers() -> None:
    data = charge().as_data()

    assert (data["name"], data["repeatable"], data["lease"]) == ("payment.charge", False, 30)
    assert data["retry"]["attempts"] == 5
    assert data["fingerprint"] == charge().fingerprint


async def asynchronous(order: Charge, ctx: JobContext) -> Receipt: ...  # type: ignore[empty-body]  # never run
async def alone(order: Charge) -> Receipt: ...  # type: ignore[empty-body]  # never run
def synchronous(order: Charge, ctx: object = None) -> Receipt: ...  # type: ignore[empty-body]  # never run


class Charger:
    async def __call__(self, order: Charge) -> Receipt: ...  # type: ignore[empty-body]  # never run


@pytest.mark.parametrize(
    ("function", "is_async", "takes_context"),
    [
        (asynchronous, True, True),
        (alone, True, False),
        (synchronous, False, True),
        (functools.partial(asynchronous, Charge(1)), True, False),
        (Charger(), True, False),
        (Charger().__call__, True, False),
    ],
)
def test_handler__shape_is_read(function: Callable[..., Any], is_async: bool, takes_context: bool) -> None:
    job_type: JobType[Any, Any] = charge()

    assert job_type.handler(function) is function

    assert job_type.handled_by is not None
    assert (job_type.handled_by.function, job_type.handled_by.is_async) == (function, is_async)
    assert job_type.handled_by.takes_context == takes_context


def generator(order: Charge) -> Iterator[Receipt]:
    yield Receipt("r")


async def async_generator(order: Charge) -> AsyncIterator[Receipt]:
    yield Receipt("r")


def nothing() -> None: ...
def three(order: Charge, ctx: object, more: int) -> None: ...
def keyword(order: Charge, *, ctx: object) -> None: ...
def star(*order: Charge) -> None: ...


@functools.wraps(alone)
def wrapped(order: Charge) -> Awaitable[Receipt]:
    return alone(order)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (generator, "it is a generator"),
        (async_generator, "it is a generator"),
        (nothing, r"it must take `\(payload\)` or `\(payload, ctx\)`"),
        (three, "it must take"),
        (star, "it must take"),
        (keyword, "keyword-only parameter without a default"),
        (wrapped, "a decorator has made the async function a sync one"),
    ],
)
def test_handler__of_another_shape_is_refused(function: Callable[..., Any], says: str) -> None:
    job_type: JobType[Any, Any] = charge()

    with pytest.raises(ConfigurationError, match=rf"cannot be the handler of job type 'payment.charge': .*{says}"):
        job_type.handler(function)


def test_handler__there_is_one() -> None:
    job_type = charge()
    job_type.handler(alone)

    with pytest.raises(ConfigurationError, match=r"two handlers: .*\.alone and .*\.asynchronous; keep one"):
        job_type.handler(asynchronous)


def test_submission__takes_aware_times_and_durations() -> None:
    made = Submission(
        Charge(5), key="order-1", deadline=datetime(2030, 1, 1, tzinfo=UTC), not_before=timedelta(hours=1)
    )

    assert (made.payload, made.tags) == (Charge(5), {})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"deadline": datetime(2030, 1, 1)}, "deadline=.* has no time zone"),  # noqa: DTZ001
        ({"not_before": datetime(2030, 1, 1)}, "not_before=.* has no time zone"),  # noqa: DTZ001
        ({"deadline": "tomorrow"}, "deadline='tomorrow' is no datetime, and no timedelta from now"),
        ({"not_before": 5}, "not_before=5 is no datetime"),
        ({"key": ""}, "key='' has 0 characters, not 1 to 255"),
        ({"key": "k" * 256}, "has 256 characters, not 1 to 255"),
        ({"key": 5}, "key=5 is not a text of 1 to 255 characters"),
        ({"key": HUGE}, "key=<int> is not a text"),
        ({"key": deep()}, "key=<list> is not a text"),
        ({"key": "a\0"}, "has a NUL"),
        ({"key": "\ud800"}, "half a character"),
        ({"tags": {"a": 1}}, "tag 'a': 1 is not a text"),
        ({"tags": {"a": HUGE}}, "tag 'a': <int> is not a text"),
        ({"tags": {"a": deep()}}, "tag 'a': <list> is not a text"),
        ({"tags": {HUGE: "a"}}, "the name of a tag, <int> is not a text"),
        ({"tags": ["a"]}, r"tags=\['a'\] are not a mapping of texts"),
        ({"tags": deep()}, "tags=<list> are not a mapping of texts"),
        ({"tags": {"a": "ok", "b": "\0"}}, r"tag 'b': '\\x00' has a NUL"),
        ({"tags": {"a\ud800": "b"}}, r"the name of a tag, 'a\\ud800' has a NUL or half a character"),
        ({"tags": {"a": "x" * 9000}}, "over the limit of 8192"),
    ],
)
def test_submission__is_refused_at_the_door(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SubmissionRefused, match=says):
        Submission(Charge(5), **options)
