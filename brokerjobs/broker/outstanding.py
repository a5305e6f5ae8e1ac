"""Which deliveries of a channel are not settled, and with how few frames some of them can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection


class Settlement(NamedTuple):
    """The frames that settle some tags: everything up to `through` (0: nothing), and each of `single`."""

    through: int
    single: list[int]


class Outstanding:
    """The unsettled delivery tags of one channel, in the order of their arrival, which is that of their numbers."""

    def __init__(self) -> None:
        self._tags: dict[int, None] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._tags)

    def add(self, tag: int) -> None:
        """Note a delivery; raises `ValueError` if it does not come after the last one."""
        if tag <= self._last:
            raise ValueError(f"delivery {tag} arrived after delivery {self._last}")
        self._last = tag
        self._tags[tag] = None

    def settle(self, tags: Collection[int]) -> Settlement:
        """Take `tags` off, leaving out those that are not outstanding: to settle one twice closes the channel.

        One `multiple` frame settles all tags up to its own, so it may reach only as far as everything is in `tags`.
        """
        wanted = set(tags)
        through = 0
        for tag in self._tags:
            if tag not in wanted:
                break
            through = tag
        single = sorted(tag for tag in wanted if tag > through and tag in self._tags)
        for tag in wanted:
            self._tags.pop(tag, None)
        return Settlement(through, single)
