"""Case 35: what is submitted comes to the handler equal and of the same types, or is refused at submit with a path."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict

from brokerjobs import App, InvalidPayload
from brokerjobs.client import Client, ClientOptions
from tests.flow.driving import flow

if TYPE_CHECKING:
    from tests.databases import Database


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Level(IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Item:
    id: UUID
    price: Decimal
    at: datetime
    colours: tuple[Colour, ...] = ()


class Buyer(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    name: str
    photo: bytes = b"\xff\x00"


class Order(BaseModel):
    id: UUID
    placed_at: datetime
    day: date
    opens: time
    within: timedelta
    total: Decimal
    level: Level
    colour: Colour
    plain: bytes
    ratio: float
    buyer: Buyer
    items: list[Item]
    by_day: dict[date, Item]
    seen: set[UUID]
    pair: tuple[int, str]
    nothing: None = None
    anything: Any = None


def item(**changes: Any) -> Item:
    made = Item(
        uuid4(), Decimal("0.10"), datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))
    )
    return dataclasses.replace(made, **changes)


def order(**changes: Any) -> Order:
    made = Order(
        id=uuid4(),
        placed_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        day=date(2026, 2, 28),
        opens=time(23, 59, 59, 999999),
        within=timedelta(days=-1, microseconds=1),
        total=Decimal("12345678901234567890.10"),
        level=Level.LOW,
        colour=Colour.BLUE,
        plain="é".encode(),
        ratio=0.1 + 0.2,
        buyer=Buyer(name="Zoë \U0001f9d1\u200d\U0001f680"),
        items=[item(), item(price=Decimal("1E+3"), colours=(Colour.RED, Colour.BLUE))],
        by_day={date(2026, 1, 1): item()},
        seen={uuid4(), uuid4()},
        pair=(7, "seven"),
        anything={"list": [1, 2.5, None, True], "digits": 10**4000},
    )
    return made.model_copy(update=changes)


def shape(value: object) -> Any:
    """The types of a value, all the way down."""
    if isinstance(value, BaseModel):
        return type(value), {name: shape(part) for name, part in vars(value).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), {one.name: shape(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return dict, {key: shape(part) for key, part in cast("dict[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        parts = cast("list[object]", value)
        return type(parts), [shape(part) for part in parts]
    return type(value)


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "naive": ({"placed_at": NAIVE}, "placed_at", "has no time zone; use an aware one"),
    "naive, deep": ({"items": [item(), item(at=NAIVE)]}, "items[1].at", "has no time zone"),
    "NaN": ({"ratio": float("nan")}, "ratio", "NaN and infinity are not JSON"),
    "NaN in a Decimal": ({"items": [item(price=Decimal("NaN"))]}, "items[0].price", "finite number"),
    "NaN anywhere": ({"anything": {"a": [0.0, float("nan")]}}, "anything.a[1]", "NaN and infinity are not JSON"),
    "Decimal anywhere": ({"anything": {"price": Decimal("0.10")}}, "anything.price", "Decimal would come back as str"),
    "UUID anywhere": ({"anything": [uuid4()]}, "anything[0]", "UUID would come back as str"),
    "date anywhere": ({"anything": date(2026, 1, 1)}, "anything", "date would come back as str"),
    "datetime anywhere": (
        {"anything": datetime(2026, 1, 1, tzinfo=UTC)},
        "anything",
        "datetime would come back as str",
    ),
    "Enum anywhere": ({"anything": (Colour.RED,)}, "anything", "tuple would come back as list"),
    "a set anywhere": ({"anything": {"ids": {1}}}, "anything.ids", "set would come back as list"),
    "bytes": ({"plain": b"\xff"}, "plain", "the bytes are not UTF-8; give the model"),
    "a number for a text key": ({"anything": {1: "a"}}, "anything", "its keys would come back as other ones"),
    "the wrong type": ({"items": [item(price="dear")]}, "items[0].price", "Input should be a valid decimal"),
}


async def test_case_35_types_survive_the_way_to_the_handler_and_back(
    database: Database, namespace: str, broker_url: str
) -> None:
    app = App(namespace)
    handled: list[Order] = []

    @app.job("order", repeatable=True)
    async def handle(payload: Order) -> Order:
        handled.append(payload)
        return payload

    sent = order()
    options = ClientOptions(submitted_by="tests", database_url=database.producer_url, broker_url=broker_url)
    async with flow(app, database, broker_url) as made, made.working(made.worker()), Client(options) as client:
        submitted = await client.submit(handle, sent)
        back = await submitted.result(timeout=timedelta(seconds=20))

        for what, (changes, path, problem) in REFUSED.items():
            with pytest.raises(InvalidPayload) as refused:
                await client.submit(handle, order(**changes))
            assert refused.value.path == path, what
            assert problem in refused.value.problem, (what, refused.value.problem)
    for received in (*handled, back):
        assert received == sent
        assert shape(received) == shape(sent)
    assert len(handled) == 1, "nothing that was refused came to the worker"
