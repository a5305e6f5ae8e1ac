"""How to know that a ring was lost: three rules for ringing again, simulated on one queue with a backlog.

age: whatever was rung long ago is rung again.  idle: only while the broker's queue is empty.  probe: a probe goes
through the same queue, and what was rung before it and is unclaimed a while after its return is rung again, as the
ledger does it.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Rule = Literal["age", "idle", "probe"]
_USELESS_COST = 0.25  # of a delivery whose job is claimed already, in jobs


@dataclass(frozen=True, slots=True)
class Load:
    """What the queue has to bear. Times in seconds, rates a second."""

    jobs: int
    arrivals: int = 0
    rate: int = 500  # jobs that the workers do
    loss: float = 0.01  # how many first rings of a hundred the broker loses, as a fraction
    period: int = 30  # between probes; after this long a ring is old
    hand_back: int = 5  # how long after its return a probe's verdict counts
    batch: int = 5000  # most rings a second that are made again
    horizon: int = 600


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    lost: set[int] = field(default_factory=set[int])
    found: int = 0  # lost rings whose job was claimed in the end
    rung_again: int = 0
    useless: int = 0  # deliveries of jobs that were claimed already
    longest_queue: int = 0


class Queue:
    """One queue, one rule."""

    def __init__(self, rule: Rule, load: Load) -> None:
        self._rule: Rule = rule
        self._load = load
        self._random = random.Random(7)
        self._queue: deque[tuple[str, int]] = deque()
        self._rung_at: dict[int, int] = {}  # of unclaimed jobs
        self._returned: list[tuple[int, int]] = []  # probes: when they came back, when they were sent
        self._made = 0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Plays second after second until nothing waits, or to the horizon."""
        self._arrive(self._load.jobs, 0)
        for now in range(1, self._load.horizon):
            self._arrive(self._load.arrivals, now)
            self._work(now)
            self._ring_again(now)
            self.outcome.longest_queue = max(self.outcome.longest_queue, len(self._queue))
            if not self._rung_at and not self._load.arrivals:
                break
        return self.outcome

    def _arrive(self, count: int, now: int) -> None:
        for job in range(self._made, self._made + count):
            self._rung_at[job] = now
            if self._random.random() < self._load.loss:
                self.outcome.lost.add(job)
            else:
                self._queue.append(("job", job))
        self._made += count

    def _work(self, now: int) -> None:
        budget = float(self._load.rate)
        while budget > 0 and self._queue:
            kind, what = self._queue.popleft()
            if kind == "probe":
                self._returned.append((now, what))
            elif what in self._rung_at:
                del self._rung_at[what]
                self.outcome.found += what in self.outcome.lost
                budget -= 1
            else:
                self.outcome.useless += 1
                budget -= _USELESS_COST

    def _ring_again(self, now: int) -> None:
        load, before = self._load, 0
        match self._rule:
            case "age":
                before = now - load.period
            case "idle":
                if not self._queue:
                    before = now - load.period
            case "probe":
                if now % load.period == 0 and self._rung_at:
                    self._queue.append(("probe", now))
                speaks = [sent for returned, sent in self._returned if now >= returned + load.hand_back]
                self._returned = [probe for probe in self._returned if now < probe[0] + load.hand_back]
                before = max(speaks, default=0)
        for job in [job for job, rung_at in self._rung_at.items() if rung_at < before][: load.batch]:
            self._rung_at[job] = now
            self._queue.append(("job", job))
            self.outcome.rung_again += 1
