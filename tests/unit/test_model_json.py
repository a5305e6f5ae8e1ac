from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, RootModel, TypeAdapter
from typing_extensions import TypedDict  # pydantic reads typing's own from Python 3.12 on

from brokerjobs.model_json import ModelJson
from brokerjobs.model_walk import Oversized, Unfit, path_of

LIMIT = 262_144


HUGE: int = pow(10, 4299)


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Level(IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    weight: Decimal = Decimal(0)


class Address(TypedDict):
    city: str


class Point(NamedTuple):
    x: int
    y: int


class Order(BaseModel):
    id: UUID = UUID(int=1)
    at: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    day: date = date(2024, 1, 1)
    clock: time = time(1, 2)
    wait: timedelta = timedelta(seconds=1)
    price: Decimal = Decimal("1.10")
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    raw: bytes = b"abc"
    part: Part = Part("wheel")
    parts: list[Part] = []
    by_name: dict[str, Part] = {}
    numbers: set[int] = set()
    pair: tuple[int, str] = (1, "a")
    point: Point = Point(1, 2)
    address: Address = {"city": "Bonn"}
    inner: list[Order] = []
    ratio: float | None = None
    anything: Any = None
    text: str = ""
    kind: Literal["a"] | int = "a"
    renamed: int = Field(default=1, alias="theName")
    hidden: str = Field(default="", exclude=True)
    _note: int = PrivateAttr(default=0)

    def noted(self) -> Order:
        self._note += 1
        return self


class Bigger(Order):
    more: int = 1


order = ModelJson[Order](Order)
anything = ModelJson[Any](Any)


def unfit(value: object, model: ModelJson[Any] = order) -> tuple[str, str]:
    with pytest.raises(Unfit) as caught:
        model.encode(value, LIMIT)
    return caught.value.path, caught.value.problem


@given(
    st.builds(
        Order,
        id=st.uuids(),
        # Before 1973 some zones had offsets with seconds, which RFC 3339 cannot say: refused, see below.
        at=st.datetimes(datetime(1973, 1, 1), timezones=st.timezones()),  # noqa: DTZ001  # as the strategy wants it
        day=st.dates(),
        clock=st.times(),
        wait=st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
        price=st.decimals(allow_nan=False, allow_infinity=False),
        colour=st.sampled_from(Colour),
        level=st.sampled_from(Level),
        raw=st.text(st.characters(exclude_characters="\0", codec="utf-8")).map(str.encode),
        part=st.builds(Part, st.text(st.characters(exclude_characters="\0", codec="utf-8"))),
        parts=st.lists(st.builds(Part, st.just("x"), st.decimals(allow_nan=False, allow_infinity=False)), max_size=3),
        numbers=st.sets(st.integers()),
        ratio=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        text=st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    )
)
def test_encode__comes_back_equal_and_of_the_same_types(value: Order) -> None:
    back = order.decode(order.encode(value, LIMIT))

    assert back.model_copy(update={"at": value.at}) == value
    assert back.at.astimezone(UTC) == value.at.astimezone(UTC)
    assert [type(one) for one in vars(back).values()] == [type(one) for one in vars(value).values()]


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (int, HUGE),
        (int, -(2**63)),
        (bytes, b"x"),
        (list[Part], [Part("a", Decimal("1.0"))]),
        (Part | None, None),
        (type(None), None),
        (RootModel[list[int]], RootModel[list[int]]([1])),
        (OrderedDict[str, int], OrderedDict([("b", 1), ("a", 2)])),
        (dict[UUID, date], {UUID(int=3): date(2024, 1, 1)}),
        (dict[int, str], {1: "a"}),
        (frozenset[str], frozenset({"a"})),
        (str, "\\u0000 is a text, so are NaN and 2024-01-01T00:00:00"),
        (dict[str, str], {"\\\\u0000": "Infinity"}),
        (datetime, datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))),
        (datetime, datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))),
        (float, -0.0),
        (float, 5e-324),
    ],
)
def test_encode__takes_any_type_that_pydantic_describes(model: Any, value: Any) -> None:
    made = ModelJson[Any](model)

    back = made.decode(made.encode(value, LIMIT).decode())

    assert TypeAdapter(model).dump_python(back, mode="json") == TypeAdapter(model).dump_python(value, mode="json")
    assert type(back) is type(value)


UNCHECKED: dict[str, Any] = {"price": "dear"}
LOCAL_MEAN = datetime(1900, 1, 1, tzinfo=ZoneInfo("Africa/Abidjan"))
nested: Any = []
for _ in range(100_000):
    nested = [nested]
cycle: list[Any] = []
cycle.extend([cycle, cycle])


def levels(count: int) -> Any:
    value: Any = "]["
    for _ in range(count):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        (Order(ratio=float("nan")), "ratio", "NaN and infinity are not JSON"),
        (Order(anything={"x": [1, float("inf")]}), "anything.x[1]", "NaN and infinity are not JSON"),
        (Order(inner=[Order(), Order(text="a\0")]), "inner[1].text", "the text has a NUL"),
        (Order(anything={"a\0": 1}), "anything", "the text has a NUL"),
        (Order(by_name={"k": Part("\udc80")}), "by_name.k.name", "the text has a lone surrogate"),
        (Order(inner=[Order(at=datetime(2024, 1, 1))]), "inner[0].at", "the datetime has no time zone"),  # noqa: DTZ001
        (Order(anything=[date(2024, 1, 1)]), "anything[0]", "date would come back as str"),
        (Order(anything=(1, 2)), "anything", "tuple would come back as list"),
        (Order(anything={1: 2}), "anything", "its keys would come back as other ones"),
        (Order(anything={1: 2, "1": 3}), "anything", "its keys would come back as other ones"),
        (
            Order(anything=[object()]),
            "anything[0]",
            "it cannot be written as JSON: Unable to serialize unknown",
        ),
        (Order(anything={"k": 10**100_000}), "anything.k", "the integer has more than 4300 digits"),
        (Order(raw=b"\xff"), "raw", "the bytes are not UTF-8; give the model"),
        (Order(raw=b"\0"), "raw", "the text has a NUL"),
        (Order(hidden="x"), "hidden", "the str would not come back equal"),
        (Order(anything={"a key" * 20: 1, "k": {2}}), "anything.k", "set would come back as list"),
        (Order.model_construct(None, **UNCHECKED), "price", "Input should be a valid decimal"),
        (Order(at=LOCAL_MEAN), "at", "the datetime would not come back equal"),
        (Bigger(), "", "Bigger would come back as Order"),
        (Order(inner=[Bigger()]), "inner[0]", "Bigger would come back as Order"),
        ({}, "", "dict would come back as Order"),
        (None, "", "Input should be an object"),
        (Order(anything=nested), f"anything{'[0]' * 7}…", "it is nested deeper than 64 levels"),
        (
            Order(inner=[Order(), Order(anything=[1, {"k": levels(61)}, 2])]),
            f"inner[1].anything[1].k{'[0]' * 3}…",
            "it is nested deeper than 64 levels",
        ),
        (Order(anything=levels(64)), f"anything{'[0]' * 7}…", "it is nested deeper than 64 levels"),
        (Order(anything=cycle), "", "it contains itself"),
    ],
)
def test_encode__says_where_and_what_cannot_be_stored(value: Any, path: str, problem: str) -> None:
    found = unfit(value)

    assert found[0] == path
    assert found[1].startswith(problem)


def test_encode__takes_63_levels_in_a_model() -> None:
    assert order.decode(order.encode(Order(anything=levels(63)), LIMIT)).anything == levels(63)


def test_encode__brackets_in_texts_are_no_levels() -> None:
    value = Order(anything=["["] * 100)

    assert order.decode(order.encode(value, LIMIT)) == value


def test_encode__refuses_infinity_from_a_model_that_writes_it() -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="constants")
        ratios: list[float]

    assert unfit(Loose(ratios=[1, float("-inf")]), ModelJson(Loose)) == ("ratios[1]", "NaN and infinity are not JSON")


def test_encode__takes_nan_from_a_model_that_writes_it_as_text() -> None:
    class Textual(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="strings")
        ratio: float

    assert json.loads(ModelJson[Textual](Textual).encode(Textual(ratio=float("nan")), LIMIT)) == {"ratio": "NaN"}


def test_encode__refuses_what_a_model_does_not_read_as_it_writes() -> None:
    class Growing(BaseModel):
        count: Annotated[int, AfterValidator(lambda count: count + 1)]

    assert unfit(Growing(count=1), ModelJson(Growing))[0] == "count"


def test_encode__an_error_in_an_equality_is_no_equality() -> None:
    @dataclasses.dataclass(eq=False)
    class Odd:
        count: int

        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert ModelJson[Odd](Odd).encode(Odd(1), LIMIT) == b'{"count":1}'


def test_encode__private_attributes_are_no_payload() -> None:
    assert order.encode(Order().noted(), LIMIT) == order.encode(Order(), LIMIT)


def test_encode__measures_bytes_not_characters() -> None:
    text = ModelJson[str](str)

    assert len(text.encode("é" * 10, 22)) == 22
    with pytest.raises(Oversized) as caught:
        text.encode("é" * 10, 21)
    assert caught.value.size == 22


def test_encode__uses_aliases_and_reads_names_too() -> None:
    assert b'"theName":5' in order.encode(Order(theName=5), LIMIT)
    assert order.decode('{"theName": 6}').renamed == 6
    assert order.decode('{"renamed": 7}').renamed == 7


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        ('{"at": "2024-01-01"}', "at", "the datetime has no time zone"),
        ('{"at": "2024-01-01 10:00"}', "at", "the datetime has no time zone"),
        (b'{"at": "2024-01-01T10:00:00.5"}', "at", "the datetime has no time zone"),
        ('{"inner": [{"price": "x"}, {"day": 1}]}', "inner[0].price", "Input should be a valid decimal (and "),
        ("[", "", "Invalid JSON"),
        ("[" * 100_000, "", "Invalid JSON: recursion limit exceeded"),
        ('{"level":' + "1" * 5000 + "}", "", "Invalid JSON: number out of range"),
        ('{"text": "\ud800"}', "", "Input should be a valid string"),
        (b"\xff", "", "Invalid JSON"),
    ],
)
def test_decode__says_where_and_what_is_wrong(data: str | bytes, path: str, problem: str) -> None:
    with pytest.raises(Unfit) as caught:
        order.decode(data)

    assert (caught.value.path, caught.value.problem.startswith(problem)) == (path, True), caught.value


def test_decode__an_error_in_a_validator_is_a_refusal() -> None:
    def broken(_value: int) -> int:
        raise KeyError("missing")

    with pytest.raises(Unfit, match="its model raised KeyError: 'missing'"):
        ModelJson[int](Annotated[int, AfterValidator(broken)]).decode("1")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.binary(), st.lists))
def test_encode__stores_or_refuses_but_never_breaks(value: object) -> None:
    try:
        data = anything.encode(value, LIMIT)
    except Unfit:
        return
    assert json.loads(data, parse_constant=pytest.fail) == value


def test_fingerprint__is_the_schemas_and_not_its_prose() -> None:
    class First(BaseModel):
        cents: int = Field(description="how much")

    def other(kind: type, prose: str) -> Any:
        return type("First", (BaseModel,), {"__annotations__": {"cents": kind}, "__doc__": prose})

    assert ModelJson[Any](First).fingerprint == ModelJson[Any](other(int, "Says more.")).fingerprint
    assert ModelJson[Any](First).fingerprint != ModelJson[Any](other(str, "")).fingerprint
    assert len(ModelJson[Any](First).fingerprint) == 64


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), ""),
        (("items", 3, "price"), "items[3].price"),
        ((0, "a"), "[0].a"),
        (("a b",), "['a b']"),
        (("x" * 100,), f"['{'x' * 40}'…]"),
    ],
)
def test_path_of__reads_like_python(steps: tuple[str | int, ...], path: str) -> None:
    assert path_of(steps) == path
