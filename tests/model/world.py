"""What can happen next: two workers, a broker that may do anything to messages, relays, time, and persons.

Every reply may be lost (the same request is then made again with the same ids), every request delayed and carried out
at any later time, every worker may die or hang at any point.  Each such fault counts against the budget of the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.effects import is_unknown
from tests.model.facts import FINISHED, Attempt, Job, Ledger, Reconciler, World
from tests.model.ledger import Functions
from tests.model.promises import broken
from tests.model.search import Step
from tests.model.workers import IDLE, Workers, called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.facts import Bounds, Protocol

    Happening = tuple[Step, World]


class Model:
    """One protocol within its bounds."""

    def __init__(self, protocol: Protocol, bounds: Bounds) -> None:
        self.protocol = protocol
        self.bounds = bounds
        self.functions = Functions(protocol, bounds)
        self._workers = Workers(self.functions)

    def first(self) -> World:
        """The job was submitted, its ring is in the outbox."""
        ledger = Ledger(Job(allowed=self.bounds.allowed), (Attempt(),) * self.bounds.attempts)
        return World(ledger, (IDLE, IDLE), faults=self.bounds.faults, decisions=self.bounds.decisions)

    def happenings(self, state: World) -> Iterator[Happening]:
        """Everything that can happen next, with the world that it leads to."""
        for step, after in self._all(state):
            if after.messages <= self.bounds.messages and after.ledger.rings <= self.bounds.rings:
                yield step, _at_a_cost(after) if step.fault else after

    def broken(self, before: World, after: World, step: Step) -> str | None:
        """The promise that a step breaks."""
        return broken(before.ledger, after.ledger, step, self.bounds)

    def is_end(self, state: World) -> bool:
        """An end, a review, or the bound of attempt ids, which is the model's and not the protocol's."""
        job = state.ledger.job
        return job.state in FINISHED or job.state == "review" or all(a.minted for a in state.ledger.attempts)

    def _all(self, world: World) -> Iterator[Happening]:
        yield from self._workers.happenings(world)
        yield from self._broker(world)
        yield from self._time(world)
        yield from self._coordinator(world)
        yield from self._persons(world)
        if self.bounds.effect:
            yield from self._outside(world)
        if self.bounds.reconciler:
            yield from self._reconciler(world)

    # The broker, relays, time, coordinators, persons.

    def _broker(self, world: World) -> Iterator[Happening]:
        ledger, one_more = world.ledger, world._replace(messages=world.messages + 1)
        if world.messages and world.faults:
            if self.bounds.loses_messages:
                yield Step("a message is lost", fault=True), world._replace(messages=world.messages - 1)
            yield Step("a message is duplicated", fault=True), one_more
        if ledger.rings:
            marked = ledger._replace(rings=ledger.rings - 1)
            yield Step("publish"), one_more._replace(ledger=marked)
            if world.faults:
                yield Step("publish", note="the relay dies before it marks", fault=True), one_more
            if self.bounds.loses_messages and world.faults:
                yield Step("publish", note="confirmed, then lost", fault=True), world._replace(ledger=marked)
        if world.delayed is not None:
            call, attempt = world.delayed
            after, answer = self.functions.call(ledger, call, attempt)
            arrived = world._replace(ledger=after, delayed=None)
            yield Step(call, attempt, answer, "as it was delayed"), arrived
            yield Step("a delayed request vanishes"), world._replace(delayed=None)

    def _time(self, world: World) -> Iterator[Happening]:
        ledger, job = world.ledger, world.ledger.job
        if job.lease == "live" and not self._calls_in_time(world):
            over = _limits_over(ledger) if self.bounds.reconciler else ledger
            yield Step("the lease runs out"), world._replace(ledger=over._replace(job=job._replace(lease="over")))
        if not job.ripe:
            over = _limits_over(ledger) if self.bounds.reconciler else ledger  # it is longer than a call may take
            ripe = world._replace(ledger=over._replace(job=job._replace(ripe=True)))
            yield Step("the time of the next try comes"), ripe
        if self.bounds.deadline and not job.deadline and job.state not in FINISHED:
            passed = ledger._replace(job=job._replace(deadline=True))
            yield Step("the deadline passes"), world._replace(ledger=passed)

    def _coordinator(self, world: World) -> Iterator[Happening]:
        ledger, job = world.ledger, world.ledger.job
        for name, (after, answer) in (("expire", self.functions.expire(ledger)), ("due", self.functions.due(ledger))):
            if answer != "passed over":
                yield Step(name, answer=answer), world._replace(ledger=after)
        # Abstracts the probe: it rings where nothing is under way any more.
        under_way = (
            ledger.rings
            or world.messages
            or any(worker.phase == "delivered" and worker.channel == "good" for worker in world.workers)
        )
        if self.bounds.reconcile and job.waiting == "delivery" and not under_way:
            yield Step("reconcile"), world._replace(ledger=ledger._replace(rings=ledger.rings + 1))

    def _persons(self, world: World) -> Iterator[Happening]:
        ledger, job = world.ledger, world.ledger.job
        if self.bounds.cancel and not job.cancelled and job.state not in FINISHED:
            after, answer = self.functions.cancel(ledger)
            yield Step("cancel", answer=answer), world._replace(ledger=after)
        if world.decisions == 0:
            return
        decisions: list[str] = []
        if job.state == "review":
            decisions = ["retry", "happened", "give up"]
        if self.bounds.replay and job.state == "failed" and not job.deadline:
            decisions = ["replay"]
        for decision in decisions:
            decided = self.functions.decided(ledger, decision)
            yield Step(f"a person decides: {decision}"), world._replace(ledger=decided, decisions=world.decisions - 1)

    # The service outside, and reconcilers who ask it.

    def _calls_in_time(self, world: World) -> bool:
        """A call of which the time limit holds is under way: until it has arrived or was given up no limit passes."""
        under_way = any(worker.phase == "active" and worker.effect == 1 for worker in world.workers)
        return (under_way or world.calling > 0) and not self.bounds.late_calls

    def _outside(self, world: World) -> Iterator[Happening]:
        ledger = world.ledger
        if world.calling:
            after = called(ledger, world.calling - 1)
            yield Step("a call that went on arrives"), world._replace(ledger=after, calling=0)
            yield Step("a call that went on is given up"), world._replace(calling=0)
        if self.bounds.forgets and ledger.tries:
            last = ledger.tries[-1]
            permitted = any(worker.phase == "active" and worker.effect == 1 for worker in world.workers)
            if not last.outcome and last.repeatable and not last.forgotten and not permitted and not world.calling:
                tries = (*ledger.tries[:-1], last._replace(forgotten=True))
                yield Step("the outside forgets the key"), world._replace(ledger=ledger._replace(tries=tries))
        if self.bounds.reconciler and not self._calls_in_time(world) and _waits_for_limits(ledger):
            yield Step("the time limits of calls pass"), world._replace(ledger=_limits_over(ledger))

    def _reconciler(self, world: World) -> Iterator[Happening]:
        ledger, job, asks = world.ledger, world.ledger.job, world.reconciler
        waits, same = _waits_for_limits(ledger), asks is not None and job.reviews == asks.review
        if asks is None or asks.saw == "too early":
            if job.state == "review" and not (same and waits):
                yield Step("review_ask"), world._replace(reconciler=Reconciler(job.reviews, in_time=not waits))
        elif not asks.saw:
            happened = any(one.ran for one in ledger.tries)
            seen = asks._replace(saw="happened" if happened else "did not happen")
            yield Step("the reconciler looks", answer=seen.saw), world._replace(reconciler=seen)
        elif job.state != "review" or not same:
            yield Step(f"found {asks.saw}", answer="closed"), world._replace(reconciler=None)
        else:
            in_time = {"to ask": asks.in_time, "to say": not waits, "never": True}[self.protocol.reconciler_waits]
            after, answer = self.functions.effects.found(ledger, happened=asks.saw == "happened", in_time=in_time)
            again = asks._replace(saw="too early") if answer == "too_early" else None
            yield Step(f"found {asks.saw}", answer=answer), world._replace(ledger=after, reconciler=again)


def _waits_for_limits(ledger: Ledger) -> bool:
    return any(is_unknown(one) and not one.limit for one in ledger.tries)


def _limits_over(ledger: Ledger) -> Ledger:
    return ledger._replace(tries=tuple(one._replace(limit=True) for one in ledger.tries))


def _at_a_cost(world: World) -> World:
    return world._replace(faults=world.faults - 1)
