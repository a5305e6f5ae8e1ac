"""What a job may need: `from brokerjobs import needs`, then `needs=[needs.has("dataset", "imagenet"), …]`.

The first four are of the worker that runs it, and compared with its capabilities; the last two are resources, of which
the ledger gives out a limited number of places.  What cannot be is refused where the job type is declared or the job
submitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.rules.needs import AtLeast, Equal, Exclusive, Has, Limit, Need, OneOf

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Need", "at_least", "equal", "exclusive", "has", "limit", "one_of"]


def equal(name: str, value: str) -> Need:
    """A worker whose capability is this text and no other: `needs.equal("os", "linux")`."""
    return Equal(name, value)


def one_of(name: str, values: Iterable[str]) -> Need:
    """A worker whose capability is among these texts: `needs.one_of("gpu", ["a100", "h100"])`."""
    return OneOf(name, (values,) if isinstance(values, str) else tuple(values))


def at_least(name: str, value: str | float) -> Need:
    """A worker whose capability is a quantity not less than this: `needs.at_least("memory", "2GiB")`.

    The worker reserves so much of it for the job until its handler has ended.
    """
    return AtLeast(name, value if isinstance(value, str) else f"{value}")


def has(name: str, value: str) -> Need:
    """A worker whose capability has this text, among others: `needs.has("dataset", "imagenet")`."""
    return Has(name, value)


def exclusive(name: str) -> Need:
    """That no other job holds this resource: `needs.exclusive("account:{account}")`, with fields of the payload."""
    return Exclusive(name)


def limit(name: str, limit: int) -> Need:
    """That fewer than `limit` other jobs hold this resource: `needs.limit("smtp", 10)`; at most 1000."""
    return Limit(name, limit)
