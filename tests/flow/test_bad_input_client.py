"""What a producer hands in that cannot be a job: refused with what, where and what to do; nothing else is harmed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from brokerjobs import (
    App,
    InvalidPayload,
    PayloadTooLarge,
    Submission,
    SubmissionRefused,
    UnknownJobType,
)
from tests.flow.borrowing import async_opened
from tests.flow.driving import flow
from tests.flow.producing import Shop, shop
from tests.hostile_values import HUGE, deep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from brokerjobs import JobType
    from tests.databases import Database


class Item(BaseModel):
    price: float = 0.0
    at: datetime | None = None
    note: str = ""
    what: Any = None


class Order(BaseModel):
    number: int = 1
    items: list[Item] = []


def items(item: Item) -> Order:
    return Order(items=[Item(), item])


UNCHECKED: dict[str, Any] = {"number": "many"}
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
BAD: dict[str, tuple[Any, dict[str, Any], type[SubmissionRefused], str]] = {
    "wrong type": (
        Order.model_construct(None, **UNCHECKED),
        {},
        InvalidPayload,
        "at number: Input should be a valid int",
    ),
    "no model": ({"number": 1}, {}, InvalidPayload, "at top level: dict would come back as Order"),
    "NaN": (items(Item(price=float("nan"))), {}, InvalidPayload, "at items[1].price: NaN and infinity are not JSON"),
    "infinity": (items(Item(what=[1e999])), {}, InvalidPayload, "at items[1].what[0]: NaN and infinity"),
    "NUL": (items(Item(note="a\0")), {}, InvalidPayload, "at items[1].note: the text has a NUL (U+0000), which Post"),
    "NUL in a key": (items(Item(what={"a\0": 1})), {}, InvalidPayload, "at items[1].what: the text has a NUL"),
    "half a character": (items(Item(note="\udc00")), {}, InvalidPayload, "at items[1].note: the text has a lone surr"),
    "naive": (items(Item(at=NAIVE)), {}, InvalidPayload, "at items[1].at: the datetime has no time zone; use an aware"),
    "digits": (items(Item(what={"k": HUGE})), {}, InvalidPayload, "at items[1].what.k: the integer has more than 4300"),
    "more digits": (Order(number=-HUGE), {}, InvalidPayload, "at number: the integer has more than 4300 digits"),
    "levels": (items(Item(what={"k": deep()})), {}, InvalidPayload, "at items[1].what.k[0][0]"),
    "size": (items(Item(note="x" * 20 * 2**20)), {}, PayloadTooLarge, "20709490 over the limit of 262144; keep large"),
    "tag": (Order(), {"tags": {"a": "b", "c": "\0"}}, SubmissionRefused, r"tag 'c': '\x00' has a NUL"),
    "deep tag": (Order(), {"tags": {"a": deep()}}, SubmissionRefused, "tag 'a': <list> is not a text"),
    "many tags": (Order(), {"tags": {"a": "b" * 9000}}, SubmissionRefused, "over the limit of 8192"),
    "key": (Order(), {"key": "\ud800"}, SubmissionRefused, r"key='\ud800' has a NUL or half a character"),
    "long key": (Order(), {"key": HUGE}, SubmissionRefused, "key=<int> is not a text of 1 to 255 characters"),
    "naive deadline": (Order(), {"deadline": NAIVE}, SubmissionRefused, "has no time zone; use an aware datetime, or"),
    "deadline in words": (Order(), {"deadline": "tomorrow"}, SubmissionRefused, "deadline='tomorrow' is no datetime"),
    "past": (Order(), {"deadline": timedelta(seconds=-1)}, SubmissionRefused, "the deadline has passed"),
    "far": (Order(), {"not_before": datetime.max.replace(tzinfo=UTC)}, SubmissionRefused, "more than a year ahead"),
    "before year 1": (
        Order(),
        {"not_before": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))},
        SubmissionRefused,
        "not_before is before the year 1",
    ),
}


# What a Submission refuses by itself, before it can become one of many.
OWN = {"tag", "deep tag", "many tags", "key", "long key", "naive deadline", "deadline in words"}


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        await opened.execute("create table orders (number integer)", "grant all on orders to public")
        yield opened


@pytest.fixture
async def order(database: Database, broker_url: str, namespace: str) -> AsyncGenerator[JobType[Order, None]]:
    app = App(f"{namespace}o")
    declared = app.job_type("order", Order, None, repeatable=True)
    async with flow(app, database, broker_url):
        yield declared


async def test_submission__that_cannot_be_is_refused_alone(made: Shop, order: JobType[Order, None]) -> None:
    async with made.client() as client:
        for what, (payload, options, kind, words) in BAD.items():
            with pytest.raises(SubmissionRefused) as refused:
                await client.submit(order, payload, **options)
            assert type(refused.value) is kind, what
            assert words in str(refused.value), (what, str(refused.value)[:300])
            assert len(str(refused.value)) < 400, what
        assert await made.count("job") == await made.count("outbox") == await made.count("idempotency_key") == 0
        await client.submit(order, Order(), key="good")
    assert await made.count("job") == 1


@pytest.mark.parametrize("way", ["psycopg", "session/asyncpg"])
async def test_submission__that_cannot_be_leaves_the_callers_transaction_alive(
    made: Shop, order: JobType[Order, None], way: str
) -> None:
    async with made.client() as client, async_opened(way, made.database.producer_url) as caller:
        await caller.run("insert into orders values (1)")
        for what, (payload, options, kind, words) in BAD.items():
            with pytest.raises(kind) as refused:
                await client.submit(order, payload, **options, within=caller.within)
            assert words in str(refused.value), what
        await client.submit(order, Order(), within=caller.within)
        await caller.commit()
    assert await made.count("job") == await made.count("orders", "public") == 1


async def test_submit_many__names_the_place_of_the_bad_one(made: Shop, order: JobType[Order, None]) -> None:
    async with made.client() as client:
        for what, (payload, options, kind, _) in BAD.items():
            with pytest.raises(kind) as refused:
                await client.submit_many(order, [Submission(Order()), Submission(payload, **options)])
            noted = getattr(refused.value, "__notes__", [])
            assert noted in ([], ["submission 2 of 2; none of them was recorded"]), what
            assert bool(noted) != (what in OWN), what
    assert await made.count("job") == 0


async def test_names_instead_of_things__are_said(made: Shop, order: JobType[Order, None]) -> None:
    wrong: Any = "payment.charge"
    bare: Any = [Order()]
    async with made.client() as client:
        with pytest.raises(SubmissionRefused, match=r"'payment.charge' is no job type; give what App.job_type"):
            await client.submit(wrong, Order())
        with pytest.raises(
            SubmissionRefused, match=r"Order\(number=1, items=\[\]\) is no Submission; write Submission\("
        ):
            await client.submit_many(order, bare)
        with pytest.raises(SubmissionRefused, match="key=5 is not a text"):
            await client.find(order, key=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(UnknownJobType, match=r"does not know job type 'refund' .*brokerjobs setup module:app"):
            await client.submit(App(order.namespace).job_type("refund", Order, None, repeatable=True), Order())


async def test_cancel__is_not_stopped_by_its_reason(made: Shop, order: JobType[Order, None]) -> None:
    async with made.client() as client:
        for reason, kept in (("a\0b\ud800", "a\ufffdb\ufffd"), ("x" * 10**6, "x" * 1_900)):
            handle = await client.submit(order, Order(), not_before=timedelta(hours=1))
            await handle.cancel(reason=reason)
            cancel = (await handle.record()).data["cancel"]
            assert cancel["reason"].startswith(kept)
            assert len(cancel["reason"]) <= 2_000
