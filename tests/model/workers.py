"""What two workers can do next, and what can go wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.effects import own_try
from tests.model.facts import Worker, World
from tests.model.search import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.facts import Ledger
    from tests.model.ledger import Functions

    Happening = tuple[Step, World]

IDLE = Worker()
# What a worker reports, by the outcome of its handler.
REPORTS = {
    "completed": "complete",
    "temporary": "fail temporary",
    "invalid": "fail invalid",
    "unknown": "fail unknown",
    "effect unknown": "fail effect unknown",
    "released": "release",
}


class Workers:
    """Both of them: a slot each, and deliveries of the one job."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.protocol = functions.protocol
        self.bounds = functions.bounds

    def happenings(self, world: World) -> Iterator[Happening]:
        """Everything that one of them can do next, or suffer."""
        for number, worker in enumerate(world.workers):
            if number == 0 or worker != world.workers[0]:  # two workers in the same state would do the same
                yield from self._goes_on(world, number, worker)
                yield from self._accidents(world, number, worker)

    def _goes_on(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        match worker.phase:
            case "idle":
                if world.messages:
                    after = _set(world, number, Worker("delivered", channel="good"))
                    yield Step("delivery"), after._replace(messages=world.messages - 1)
            case "delivered":
                yield from self._delivered(world, number, worker)
            case "claimed":
                yield from self._claimed(world, number, worker)
            case "active":
                yield from self._active(world, number, worker)
            case "reports":
                yield from self._reporting(world, number, worker)
            case "settles":
                yield Step("ack" if worker.channel == "good" else "nothing to ack"), _set(world, number, IDLE)
                if worker.channel == "good" and world.faults:
                    lost = _set(world, number, IDLE)
                    yield Step("ack", note="lost", fault=True), lost._replace(messages=world.messages + 1)
            case _:
                return

    def _claimed(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        """Claimed and not started: only of types that are not repeatable."""
        attempt = worker.attempt
        if self.protocol.start_awaited:
            ledger, answer = self.functions.start(world.ledger, attempt)
            match answer:
                case "started":
                    mine, begun = worker._replace(phase="active"), self._running(ledger)
                case "cancel_requested":
                    mine, begun = _reports(worker, "released"), ledger
                case _:
                    mine, begun = _settles(worker), ledger
            yield Step("start", attempt, answer), _set(world, number, mine, begun)
            if world.faults:
                yield Step("start", attempt, answer, "reply lost", fault=True), world._replace(ledger=ledger)
        else:
            after = _set(world, number, worker._replace(phase="active"), self._running(world.ledger))
            yield Step("the handler starts, unrecorded", attempt), after
        if self.bounds.drain:
            yield Step("drain before the start", attempt), _set(world, number, _reports(worker, "released"))

    def _running(self, ledger: Ledger) -> Ledger:
        """The handler's work begins, and may do its damage; with an effect that is done by its call."""
        outside = ledger.outside
        runs = outside.runs if self.bounds.effect else min(outside.runs + 1, 3)
        return ledger._replace(outside=outside._replace(runs=runs))

    def _delivered(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        ledger, attempt = world.ledger, worker.attempt
        if attempt == 0:
            unused = next((n for n, a in enumerate(ledger.attempts, 1) if not a.minted), None)
            if unused is not None:
                minted = _mint(ledger, unused)
                after = _set(world, number, worker._replace(attempt=unused), minted)
                yield Step("mint", unused), after
            if self.bounds.drain:
                rung, answer = self.functions.hand_back(ledger)
                after = _set(world, number, Worker("settles", channel=worker.channel), rung)
                yield Step("hand_back", answer=answer), after
            return
        claimed, answer = self.functions.claim(ledger, attempt)
        if answer == "granted":
            channel = "" if self.protocol.ack_on_claim else worker.channel
            mine = Worker("claimed" if self.bounds.once else "active", attempt, channel=channel)
        else:
            mine = Worker("settles", channel=worker.channel)
        yield Step("claim", attempt, answer), _set(world, number, mine, claimed)
        yield from self._without_reply(world, "claim", attempt, (claimed, answer))

    def _active(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        attempt, bounds = worker.attempt, self.bounds
        if bounds.effect:
            yield from self._effect(world, number, worker)
        if bounds.transaction == "fences" and worker.effect == 0:
            ledger, answer = self.functions.fence_v1(world.ledger, attempt)
            mine = worker._replace(effect=3) if answer == "held" else _settles(worker)
            yield Step("fence_v1", attempt, answer), _set(world, number, mine, ledger)
        if bounds.transaction == "completes":
            yield from self._transaction(world, number, worker)
            return
        done = worker.effect == 3 or not (bounds.effect or bounds.transaction)
        done = done or (bounds.swallows and worker.effect > 0)
        if worker.effect == 6:
            return
        for outcome, may in (
            ("completed", done),
            ("temporary", True),
            ("invalid", bounds.other_ends),
            ("unknown", bounds.other_ends),
            ("released", bounds.drain),
        ):
            if may:
                yield Step(f"the handler ends: {outcome}", attempt), _set(world, number, _reports(worker, outcome))

    def _effect(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        """Asks (0), is permitted (1), has called (2), is done (3), was refused (4), cannot do it (5), withdraws (6)."""
        attempt, effects, bounds = worker.attempt, self.functions.effects, self.bounds
        match worker.effect:
            case 0:
                ledger, answer = effects.intent(world.ledger, attempt)
                mine = {
                    "granted": worker._replace(effect=1),
                    "happened": worker._replace(effect=3),
                    "unknown": _reports(worker, "effect unknown"),
                    "lost, permitted before": worker._replace(effect=6),
                }.get(answer, _settles(worker))
                yield Step("intent", attempt, answer), _set(world, number, mine, ledger)
                if world.faults:
                    yield Step("intent", attempt, answer, "reply lost", fault=True), world._replace(ledger=ledger)
            case 1:
                own = own_try(world.ledger, attempt)
                assert own is not None
                if bounds.late_calls or not world.ledger.tries[own].limit:
                    after = _set(world, number, worker._replace(effect=2), called(world.ledger, own))
                    yield Step("CALLS the outside service", attempt), after
                if bounds.goes_on and not world.calling:
                    ends = world._replace(calling=own + 1)
                    note = "its call goes on"
                    yield (
                        Step("the handler ends: temporary", attempt, note=note),
                        _set(ends, number, _reports(worker, "temporary")),
                    )
                if bounds.refuses:
                    refused = _set(world, number, worker._replace(effect=4))
                    yield Step("the outside service refuses the call", attempt), refused
            case 2 | 4 | 6:
                said = "happened" if worker.effect == 2 else "did not happen"
                ledger, answer = effects.outcome(world.ledger, attempt, said)
                mine = _settles(worker) if worker.effect == 6 else worker._replace(effect=worker.effect + 1)
                yield Step(f"outcome {said}", attempt, answer), _set(world, number, mine, ledger)
                if world.faults and bounds.delays and world.delayed is None:
                    late = _set(world._replace(delayed=(f"outcome {said}", attempt)), number, mine)
                    yield Step(f"outcome {said}", attempt, note="delayed", fault=True), late
            case _:
                return

    def _transaction(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        """A handler's completing transaction, whose COMMIT may get no answer."""
        attempt = worker.attempt
        if worker.effect == 0 or (worker.effect == 2 and self.protocol.after_unknown_commit == "pays again"):
            ledger, answer = self.functions.complete_v1(world.ledger, attempt)
            after = world._replace(ledger=ledger)
            yield (
                Step("complete_v1", attempt, answer),
                _set(after, number, worker._replace(effect=2 if answer != "accepted" else 3)),
            )
            if world.faults:
                unknown, note = worker._replace(effect=2), "connection lost before its COMMIT"
                yield Step("complete_v1", attempt, answer, "reply lost", fault=True), _set(after, number, unknown)
                yield Step("complete_v1", attempt, note=note, fault=True), _set(world, number, unknown)
        elif worker.effect == 3:
            yield Step("the handler ends, as it has reported", attempt), _set(world, number, _settles(worker))
        elif self.protocol.after_unknown_commit == "completes":
            yield Step("the handler ends: completed", attempt), _set(world, number, _reports(worker, "completed"))
        else:
            _, answer = self.functions.asked(world.ledger, attempt)
            mine = _settles(worker) if answer == "reported" else _reports(worker, "temporary")
            yield Step("asked", attempt, answer), _set(world, number, mine)

    def _reporting(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        attempt, call = worker.attempt, REPORTS[worker.outcome]
        ledger, answer = self.functions.call(world.ledger, call, attempt)
        yield Step(call, attempt, answer), _set(world, number, _settles(worker), ledger)
        yield from self._without_reply(world, call, attempt, (ledger, answer))
        if not self.protocol.keeps_its_word and worker.outcome == "completed" and self.bounds.drain:
            yield Step("gives up asking, and releases", attempt), _set(world, number, _reports(worker, "released"))

    def _without_reply(self, world: World, call: str, attempt: int, result: tuple[Ledger, str]) -> Iterator[Happening]:
        if not world.faults:
            return
        ledger, answer = result
        yield Step(call, attempt, answer, "reply lost", fault=True), world._replace(ledger=ledger)
        if self.bounds.delays and world.delayed is None:
            yield Step(call, attempt, note="delayed", fault=True), world._replace(delayed=(call, attempt))

    def _accidents(self, world: World, number: int, worker: Worker) -> Iterator[Happening]:
        if worker.phase == "idle" or not world.faults:
            return
        back = world.messages + (worker.channel == "good")
        if self.bounds.hangs and "hung" not in {other.phase for other in world.workers}:
            hung = Worker("hung", channel="lost" if worker.channel else "")
            yield Step("a worker hangs for ever", worker.attempt, fault=True), _set(world, number, hung)
        died = _set(world, number, IDLE)
        yield Step("a worker dies", worker.attempt, fault=True), died._replace(messages=back)
        if worker.channel == "good":
            lost = _set(world, number, worker._replace(channel="lost"))
            yield Step("a channel is lost, redelivery", fault=True), lost._replace(messages=world.messages + 1)


def _set(world: World, number: int, worker: Worker, ledger: Ledger | None = None) -> World:
    """Workers are kept in order: which of two does something makes no difference."""
    other = world.workers[1 - number]
    pair = (worker, other) if worker <= other else (other, worker)
    return world._replace(ledger=world.ledger if ledger is None else ledger, workers=pair)


def _reports(worker: Worker, outcome: str) -> Worker:
    return worker._replace(phase="reports", outcome=outcome, effect=0)


def _settles(worker: Worker) -> Worker:
    return Worker("settles", channel=worker.channel)


def _mint(ledger: Ledger, attempt: int) -> Ledger:
    attempts = list(ledger.attempts)
    attempts[attempt - 1] = attempts[attempt - 1]._replace(minted=True)
    return ledger._replace(attempts=tuple(attempts))


def called(ledger: Ledger, at: int) -> Ledger:
    """A call arrives; what the outside knows by its key it does not do again."""
    one, outside = ledger.tries[at], ledger.outside
    again = one.ran and one.repeatable and not one.forgotten
    ran = one._replace(ran=True)
    return ledger._replace(
        tries=(*ledger.tries[:at], ran, *ledger.tries[at + 1 :]),
        outside=outside if again else outside._replace(runs=min(outside.runs + 1, 3)),
    )
