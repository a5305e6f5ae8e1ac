"""Triples of more than one job, or of none yet: batches that cross, and submissions with one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uuid_utils.compat import uuid7

from brokerjobs.ledger import calls, inquiries
from tests.ledger.interleavings import grounds
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import CANCEL, COMPLETE, EXPIRE, Call, asking, claims, does
from tests.ledger.ledger_caller import RESULT, new_job

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Scene
    from tests.ledger.interleavings.sessions import Hand, Program, Steps
    from tests.ledger.ledger_caller import Caller


def _claim_both(caller: Caller, scene: Scene) -> str:
    answers = caller.claim_all([(job, uuid7()) for job in scene.jobs])
    return "locked" if all(answer.verdict == "locked" for answer in answers) else " ".join(a.verdict for a in answers)


def _complete_both(caller: Caller, scene: Scene) -> str:
    reports = [caller.report(holding, RESULT) for holding in reversed(scene.holdings)]
    answers = caller.fetch(calls.complete(reports))
    return "locked" if all(answer.verdict == "locked" for answer in answers) else " ".join(a.verdict for a in answers)


def submits(payload: Any) -> Program:
    """A producer submits a job with the key, in its own transaction."""

    def program(hand: Hand) -> Steps:
        def submit(caller: Caller, scene: Scene) -> Any:
            clock, place = scene.ledger.clock, scene.ledger.place
            batch = inquiries.SubmitBatch(
                place.namespace,
                "work",
                hand.who,
                None,
                clock.now,
                announced=False,
                jobs=[new_job(payload, key=grounds.KEY)],
            )
            return caller.fetch(inquiries.submit(batch))[0]

        word = yield from asking(hand, Call("submit", submit, stops=(2,)))
        answer = hand.scene.told[-1].answer
        if answer.verdict == "created":
            hand.scene.others.append(answer.id)
        return word

    return program


def _due(caller: Caller, scene: Scene) -> str:
    states = caller.due()
    return " ".join(states.get(job, "passed over") for job in scene.jobs)


_CLAIMS_BOTH: Final = Part(
    "another worker", "worker", does(Call("claims", _claim_both, stops=(1, 2)), in_one_step=True)
)
_COMPLETES_BOTH: Final = Part(
    "worker", "worker", does(Call("completions", _complete_both, stops=(1, 2)), in_one_step=True)
)
_PERSON_CANCELS: Final = Part("person", "producer", does(CANCEL), waits=True)

TRIPLES: Final = (
    Triple(
        "claims of two jobs, completions of both the other way round, cancel of one",
        grounds.two_over,
        (_CLAIMS_BOTH, _COMPLETES_BOTH, _PERSON_CANCELS),
    ),
    Triple(
        "claims of two jobs, completions of both the other way round, expire",
        grounds.two_over,
        (_CLAIMS_BOTH, _COMPLETES_BOTH, Part("reaper", "coordinator", does(EXPIRE, in_one_step=True))),
    ),
    Triple(
        "due of two jobs, claims of both, cancel of one",
        grounds.two_lost,
        (
            Part("scheduler", "coordinator", does(Call("due", _due, stops=(2,)), in_one_step=True)),
            _CLAIMS_BOTH,
            _PERSON_CANCELS,
        ),
    ),
    Triple(
        "submit, submit with the same key and payload, submit with the same key and another payload",
        grounds.queued,
        (
            Part("producer", "producer", submits({"n": 1}), waits=True),
            Part("the same again", "producer", submits({"n": 1}), waits=True),
            Part("another producer", "producer", submits({"n": 2}), waits=True),
        ),
    ),
    Triple(
        "submit, submit with the same key, retain_keys",
        grounds.key_of_the_past,
        (
            Part("producer", "producer", submits({}), waits=True),
            Part("another producer", "producer", submits({}), waits=True),
            Part("retention", "coordinator", does(Call("retain_keys", lambda c, _: grounds.retain_keys(c), stops=()))),
        ),
    ),
    Triple(
        "retain_jobs, late complete, claim for a redelivery",
        grounds.finished,
        (
            Part("retention", "coordinator", does(Call("retain_jobs", lambda c, _: grounds.retain_jobs(c), stops=()))),
            Part("worker", "worker", does(COMPLETE)),
            Part("another worker", "worker", claims()),
        ),
    ),
)
