"""The caller's own transactions, by every driver and toolkit that `within=` takes."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

WAYS = ("psycopg", "session/psycopg", "session/asyncpg", "connection/psycopg", "connection/asyncpg")


@dataclass(frozen=True)
class Borrowed:
    """One transaction of a caller, who also writes orders of his own in it."""

    within: Any

    async def order(self, number: int) -> None:
        """The caller's own write."""
        statement = f"insert into orders values ({number})"
        await self.within.execute(statement if isinstance(self.within, psycopg.AsyncConnection) else text(statement))

    async def commit(self) -> None:
        """The caller's commit."""
        await self.within.commit()

    async def rollback(self) -> None:
        """The caller's rollback."""
        await self.within.rollback()


@asynccontextmanager
async def borrowed(way: str, url: str, **engine_options: Any) -> AsyncGenerator[Borrowed]:
    """Opens a transaction in one of `WAYS`; what is not committed is rolled back."""
    async with AsyncExitStack() as stack:
        if way == "psycopg":
            connection = await psycopg.AsyncConnection.connect(url)
            stack.push_async_callback(connection.close)
            yield Borrowed(connection)
            return
        shape, driver = way.split("/")
        engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"), **engine_options)
        stack.push_async_callback(engine.dispose)
        opened = AsyncSession(engine) if shape == "session" else AsyncConnection(engine)
        yield Borrowed(await stack.enter_async_context(opened))
