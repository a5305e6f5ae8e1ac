"""Arrays in PostgreSQL's binary format arrive as they were meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID, uuid4

import pytest

from brokerjobs.ledger.arrays import Moments, Texts, Uuids
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, DataRefused, Query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.databases import Database


@pytest.fixture
async def ledger(database: Database) -> AsyncIterator[AsyncLedgerConnection]:
    connection = AsyncLedgerConnection(ConnectOptions(database.worker_url))
    yield connection
    await connection.close()


def _itself(value: Any) -> Any:
    return value


MOMENTS = [
    datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC),
    None,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=-5))),
]
ARRAYS: dict[str, tuple[list[Any], LiteralString]] = {
    "ids": (Uuids([UUID(int=0), UUID(int=2**128 - 1), None, uuid4()]), "uuid[]"),
    "moments": (Moments(MOMENTS), "timestamptz[]"),
    "no moment": (Moments([None]), "timestamptz[]"),
    "texts": (Texts(["", "null", 'a,"b"\\{}', "é\n\t", "𝄞" * 1000]), "text[]"),
    "no ids": (Uuids(), "uuid[]"),
    "no moments": (Moments(), "timestamptz[]"),
    "no texts": (Texts(), "text[]"),
}


@pytest.mark.parametrize(("values", "kind"), ARRAYS.values(), ids=ARRAYS)
async def test_array__arrives_as_it_was(ledger: AsyncLedgerConnection, values: list[Any], kind: LiteralString) -> None:
    # As text, too: a driver that read back what it wrote would not notice an error of both.
    text = Query("select array(select x::text from unnest(%s) x)", [values], _itself)
    own = Query("select array(select x::text from unnest(%s::" + kind + ") x)", [list(values)], _itself)
    typed = Query("select pg_typeof(%s)::text", [values], _itself)

    assert await ledger.fetch(Query("select %s", [values], _itself)) == [list(values)]
    assert await ledger.fetch(typed) == [{"timestamptz[]": "timestamp with time zone[]"}.get(kind, kind)]
    if values:
        assert await ledger.fetch(text) == await ledger.fetch(own)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
async def test_texts__are_refused_as_data_if_they_cannot_be_stored(ledger: AsyncLedgerConnection, text: str) -> None:
    with pytest.raises(DataRefused):
        await ledger.fetch(Query("select %s::text[]", [Texts(["fine", text])], _itself))
