"""Questions as plain data: a generator yields queries, is sent their rows, and returns the answer.

Whoever writes one need not know who runs it: an event loop, a thread, or a user's own transaction.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from brokerjobs.ledger.database import Query

if TYPE_CHECKING:
    from brokerjobs.ledger.database import Fetch, SyncFetch

T = TypeVar("T")
Asking: TypeAlias = Generator[Query[Any], list[Any], T]


async def ask(asking: Asking[T], fetch: Fetch) -> T:
    """Runs the queries one after the other; raises what `fetch` or the question itself raises."""
    try:
        query = next(asking)
        while True:
            query = asking.send(await fetch(query))
    except StopIteration as answered:
        answer: T = answered.value
        return answer


def ask_sync(asking: Asking[T], fetch: SyncFetch) -> T:
    """As `ask`, in a thread."""
    try:
        query = next(asking)
        while True:
            query = asking.send(fetch(query))
    except StopIteration as answered:
        answer: T = answered.value
        return answer
