"""An exclusive resource: two jobs that need it, two attempts each; and who wakes those that wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from tests.model.search import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
ATTEMPTS = ((0, 1), (2, 3))  # of the two jobs


class Job(NamedTuple):
    """A job that needs the resource."""

    state: str = "queued"
    attempt: int = -1
    lease: str = ""


class Attempt(NamedTuple):
    """One attempt of one of them."""

    state: str = ""
    number: int = 0  # its fencing number


class World(NamedTuple):
    """One state of everything."""

    jobs: tuple[Job, Job] = (Job(), Job())
    attempts: tuple[Attempt, ...] = (Attempt(),) * 4
    holder: int = -1
    last: int = 0  # the last fencing number that the resource has given out
    pending: tuple[int, int] | None = None  # a claim that has looked and not yet committed: job, attempt


@dataclass(frozen=True, slots=True)
class ExclusiveResource:
    """The rules: when it is free, and what a result must carry."""

    free: Literal["lease over", "holder closed"]  # by an unlocked look at the lease, or by a committed close
    result_carries_number: bool  # acceptance compares the resource's last number, too
    claims_in_two_steps: bool = False  # others may act between the look and the commit

    def first(self) -> World:
        """Two queued jobs."""
        return World()

    def is_end(self, state: World) -> bool:
        """Done, or out of attempts."""
        return all(
            job.state == "succeeded" or all(state.attempts[a].state for a in mine)
            for job, mine in zip(state.jobs, ATTEMPTS, strict=True)
        )

    def broken(self, before: World, after: World, step: Step) -> str | None:
        """The promise that a step breaks."""
        if step.what == "completes" and after.attempts[step.attempt].number < before.last and step.answer == "accepted":
            return "a result is accepted although a newer holder has taken the resource"
        if sum(_lives(after, attempt) for attempt in range(4)) > 1:
            return "two attempts with live leases hold the resource"
        return None

    def happenings(self, state: World) -> Iterator[tuple[Step, World]]:
        """Everything that can happen next."""
        yield from self._claims(state)
        for number, job in enumerate(state.jobs):
            if job.state == "running" and job.lease == "live":
                yield Step("the lease runs out", job.attempt), _job(state, number, job._replace(lease="over"))
            if job.state == "running" and job.lease == "over":
                closed = _attempt(state, job.attempt, state.attempts[job.attempt]._replace(state="timed_out"))
                yield Step("expire", job.attempt), _job(closed, number, job._replace(state="queued", lease=""))
                if self.claims_in_two_steps and state.pending:  # it read the clock before its lease was over
                    yield Step("renew commits", job.attempt), _job(state, number, job._replace(lease="live"))
        for attempt in range(4):
            if state.attempts[attempt].state in {"active", "timed_out"}:
                yield self._completes(state, attempt)

    def _claims(self, state: World) -> Iterator[tuple[Step, World]]:
        for number, job in enumerate(state.jobs):
            unused = next((a for a in ATTEMPTS[number] if not state.attempts[a].state), None)
            if job.state != "queued" or unused is None or not self._is_free(state):
                continue
            if not self.claims_in_two_steps:
                yield Step("claim", unused), _granted(state, number, unused)
            elif state.pending is None:
                yield Step("claim looks: free", unused), state._replace(pending=(number, unused))
        if state.pending is not None:
            number, attempt = state.pending
            looked = state._replace(pending=None)
            if state.jobs[number].state == "queued":
                yield Step("claim commits", attempt), _granted(looked, number, attempt)
            else:
                yield Step("claim finds its job taken", attempt), looked

    def _is_free(self, state: World) -> bool:
        if state.holder < 0 or state.attempts[state.holder].state != "active":
            return True
        return self.free == "lease over" and state.jobs[state.holder // 2].lease == "over"

    def _completes(self, state: World, attempt: int) -> tuple[Step, World]:
        number, mine = attempt // 2, state.attempts[attempt]
        job = state.jobs[number]
        let_go = state._replace(holder=-1) if state.holder == attempt else state
        current = job.attempt == attempt and job.state in {"running", "queued"}
        if current and (not self.result_carries_number or state.last == mine.number):
            done = _job(let_go, number, Job("succeeded", attempt))
            return Step("completes", attempt, "accepted"), _attempt(done, attempt, mine._replace(state="completed"))
        if current and job.state == "running":
            let_go = _job(let_go, number, Job("queued", attempt))
        return Step("completes", attempt, "rejected"), _attempt(let_go, attempt, mine._replace(state="rejected"))


def _lives(state: World, attempt: int) -> bool:
    job = state.jobs[attempt // 2]
    is_its = job.state == "running" and job.attempt == attempt and job.lease == "live"
    return state.attempts[attempt].state == "active" and is_its


def _granted(state: World, number: int, attempt: int) -> World:
    fencing = 1 + max(state.last, *(state.attempts[a].number for a in ATTEMPTS[number]))
    taken = _job(state, number, Job("running", attempt, "live"))._replace(holder=attempt, last=fencing)
    return _attempt(taken, attempt, Attempt("active", fencing))


def _job(state: World, number: int, job: Job) -> World:
    return state._replace(jobs=(job, state.jobs[1]) if number == 0 else (state.jobs[0], job))


def _attempt(state: World, number: int, attempt: Attempt) -> World:
    attempts = state.attempts
    return state._replace(attempts=(*attempts[:number], attempt, *attempts[number + 1 :]))


class Waiters(NamedTuple):
    """A holder and two jobs that wait without a delivery of their own; a doorbell under way for each, or none."""

    jobs: tuple[str, ...] = ("running", "waits", "waits")
    rings: tuple[bool, ...] = (False, False, False)
    losses: int = 0
    cancels: int = 1


@dataclass(frozen=True, slots=True)
class WakingWaiters:
    """The oldest waiter is rung when the resource is freed; and, with `ticks`, by the scheduler while it is free."""

    ticks: bool
    losses: int = 0

    def first(self) -> Waiters:
        """One runs, two wait."""
        return Waiters(losses=self.losses)

    def is_end(self, state: Waiters) -> bool:
        """Nobody waits for ever."""
        return all(job in {"succeeded", "cancelled"} for job in state.jobs)

    def broken(self, _before: Waiters, after: Waiters, _step: Step) -> str | None:
        """The promise that a step breaks."""
        return "two hold the resource" if after.jobs.count("running") > 1 else None

    def happenings(self, state: Waiters) -> Iterator[tuple[Step, Waiters]]:
        """Everything that can happen next."""
        free = "running" not in state.jobs
        for number, job in enumerate(state.jobs):
            if job == "running":
                ended = state._replace(jobs=_put(state.jobs, number, "succeeded"))
                yield Step("completes, rings the oldest waiter", number + 1), _ring_oldest(ended)
            if state.rings[number]:
                answered = state._replace(rings=_put(state.rings, number, False))
                if job == "waits" and free:
                    yield Step("claims", number + 1), answered._replace(jobs=_put(state.jobs, number, "running"))
                else:
                    yield Step("delivery: not now, acked", number + 1), answered
                if state.losses:
                    yield Step("a ring is lost", number + 1), answered._replace(losses=state.losses - 1)
            if job == "waits" and state.cancels:
                cancelled = state._replace(jobs=_put(state.jobs, number, "cancelled"), cancels=state.cancels - 1)
                yield Step("is cancelled", number + 1), cancelled
        if self.ticks and free and _ring_oldest(state) != state:
            yield Step("the scheduler rings the oldest waiter"), _ring_oldest(state)


def _ring_oldest(state: Waiters) -> Waiters:
    if "waits" not in state.jobs:
        return state
    return state._replace(rings=_put(state.rings, state.jobs.index("waits"), True))


def _put(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[:number], value, *values[number + 1 :])
