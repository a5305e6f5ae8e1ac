"""Amounts of a worker's quantities that its jobs have reserved: never more than there is.

Amounts are whole thousandths, so that what was taken and given back adds up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from brokerjobs.rules.needs import AtLeast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.needs import Need

Amounts: TypeAlias = "Mapping[str, int]"

NOTHING: Final[Amounts] = {}
_THOUSANDTHS: Final = 1000


class Stock:
    """What a worker has of each quantity, and what of it is free."""

    def __init__(self, capabilities: Capabilities) -> None:
        read = {name: capabilities.quantity(name) for name, _ in capabilities.items}
        self._all = {name: _whole(one.amount) for name, one in read.items() if one is not None}
        self._free = dict(self._all)

    def amounts(self, needs: Iterable[Need]) -> Amounts:
        """What a job with these needs reserves: of several `at_least` about one quantity, the largest.

        Never more than there is: a worker that has less does not qualify, and is not asked.
        """
        found: dict[str, int] = {}
        for one in needs:
            if isinstance(one, AtLeast) and one.name in self._all:
                wanted = min(_whole(one.quantity.amount), self._all[one.name])
                found[one.name] = max(found.get(one.name, 0), wanted)
        return {name: amount for name, amount in found.items() if amount}

    def fits(self, amounts: Amounts) -> bool:
        """Is so much free?"""
        return all(self._free[name] >= amount for name, amount in amounts.items())

    def take(self, amounts: Amounts) -> None:
        """Reserves amounts; raises ValueError if they do not fit."""
        if not self.fits(amounts):
            message = f"{dict(amounts)} is more than is free: {self._free}"
            raise ValueError(message)
        for name, amount in amounts.items():
            self._free[name] -= amount

    def give(self, amounts: Amounts) -> None:
        """Gives back what was taken; raises ValueError if there would be more than there is."""
        for name, amount in amounts.items():
            self._free[name] += amount
            if self._free[name] > self._all[name]:
                message = f"{name}: more was given back than was taken"
                raise ValueError(message)


def _whole(amount: float) -> int:
    return round(amount * _THOUSANDTHS)
