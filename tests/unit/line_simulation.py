"""A worker with slots and quantities on a simulated clock: who starts when, with the line of the product."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field

from brokerjobs.rules.capabilities import of
from brokerjobs.rules.lanes import NORMAL, Lane
from brokerjobs.rules.line import Line, Place
from brokerjobs.rules.stock import Amounts, Stock

MEMORY = 16


@dataclass(eq=False)
class Job:
    """One job that comes at `received` by the route of what it needs, and runs for `seconds`."""

    received: float
    seconds: float
    memory: int = 0
    added: int = 0
    """What its submission added: known when it is granted."""
    lane: Lane = NORMAL
    started: float = -1.0

    @property
    def route(self) -> str:
        return f"{self.memory}~{self.lane}"

    @property
    def waited(self) -> float:
        return self.started - self.received


@dataclass
class Simulation:
    """Runs jobs to their end; `most` is the largest amount that ran at the same time."""

    jobs: list[Job]
    slots: int = 4
    early: float = 1e9
    prefetch: int = 1000
    line: Line[Job] = field(init=False)
    most: int = 0
    order: list[Job] = field(default_factory=list[Job])

    def __post_init__(self) -> None:
        stock = Stock(of({"memory": str(MEMORY)}))
        self.line = Line(stock, self.early)
        self.line.place({job.route: Place(job.lane, amounts(job.memory)) for job in self.jobs})
        for job in self.jobs:
            job.started = -1.0

    def run(self) -> Simulation:
        """Plays it; asserts that nothing is overcommitted, and that it ends."""
        count = itertools.count()
        events = [(job.received, next(count), job, "comes") for job in self.jobs]
        heapq.heapify(events)
        running: dict[Job, float] = {}
        at_broker: deque[Job] = deque()
        free = self.slots
        now = 0.0

        def start(job: Job) -> None:
            assert job.started < 0, "started twice"
            job.started = now
            self.order.append(job)
            running[job] = now
            self.most = max(self.most, sum(max(one.memory, one.added) for one in running))
            assert self.most <= MEMORY
            heapq.heappush(events, (now + job.seconds, next(count), job, "ends"))

        while events or at_broker or len(self.line):
            opens_at = self.line.opens_at(now)
            if events and (opens_at is None or events[0][0] <= opens_at):
                now, _, job, what = heapq.heappop(events)
                if what == "comes":
                    at_broker.append(job)
                else:
                    free += 1
                    self.line.release(job, now - running.pop(job))
            else:
                assert opens_at is not None, "something waits for ever"
                now = opens_at
            for job in self.line.admit(now, has_slot=free > 0):
                start(job)
            while at_broker and len(self.line) < self.prefetch:
                delivered = at_broker.popleft()
                delivered.received = now
                self.line.put(delivered)
            for job in self.line.take(free, now):
                free -= 1
                if self.line.wait(job, amounts(max(job.memory, job.added))):
                    start(job)
            for job in self.line.admit(now, has_slot=free > 0):
                start(job)
        assert all(job.started >= 0 for job in self.jobs)
        return self


def amounts(memory: int) -> Amounts:
    """What is reserved for so much memory."""
    return {"memory": memory * 1000} if memory else {}
