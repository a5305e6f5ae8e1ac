"""One error out of a task group whose tasks fail for one reason."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokerjobs.broker.isolation import Undecodable
from brokerjobs.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def ungrouped() -> Generator[None]:
    """Raise the gravest error of an `ExceptionGroup` from inside: anything, `Undecodable`, then `BrokerUnavailable`.

    The block of the task group must itself wait until the end: of a task that fails while only the group's own exit
    waits, Python 3.11 leaves a cancellation behind that was none.
    """
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    try:
        yield
    except ExceptionGroup as group:
        if task is not None and task.cancelling() > cancelled_before:
            # Cancelled and failed at once: the group tells of the failure only (until Python 3.13).
            raise asyncio.CancelledError from group
        error = min(group.exceptions, key=_lightness)
        raise error from error.__cause__


def _lightness(error: Exception) -> int:
    if isinstance(error, Undecodable):
        return 1
    return 2 if isinstance(error, BrokerUnavailable) else 0
