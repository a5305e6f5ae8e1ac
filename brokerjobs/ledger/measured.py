"""How long calls of the ledger take, by the function that they call."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.instruments import measuring

if TYPE_CHECKING:
    from collections.abc import Generator

# Not `review_opening`, which steps call beside their own function; of a service what follows its election.
_CALLED: Final = re.compile(r"(?:from|lateral|select) brokerjobs\.(\w+?)(?:_jobs)?\(")


@contextmanager
def measured(sql: str) -> Generator[None]:
    """Measures what runs inside, if anybody takes metrics."""
    if measuring.instruments is None:
        yield
        return
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        metrics.ledger_called(operation(sql), time.monotonic() - began, error)
        raise
    metrics.ledger_called(operation(sql), time.monotonic() - began)


@lru_cache(1_000)
def operation(sql: str) -> str:
    """The ledger's function that a statement calls; `other` if it calls none."""
    found = _CALLED.findall(sql)
    return found[-1] if found else "other"
