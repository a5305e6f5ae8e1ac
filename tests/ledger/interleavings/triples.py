"""The triples: which three sessions meet on which ground.

Those that the design's references name (claim, sweep and completion; two completions and a sweep; every pair of them),
and those that the SQL suggests: whatever takes the same row, or decides by what another writes.
"""

from __future__ import annotations

from typing import Final

from tests.ledger.interleavings import artifacts, batches, effect_triples, grounds, pausing, resources
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import (
    ASKED,
    CANCEL,
    COMPLETE,
    COMPLETE_OTHERWISE,
    DUE,
    EXPIRE,
    FAIL,
    FAIL_UNSAFE,
    HAND_BACK,
    RECONCILE,
    RELEASE,
    RENEW,
    SEARCH_AND_DUE,
    SEARCH_AND_EXPIRE,
    START,
    claims,
    claims_again,
    claims_and_releases,
    does,
)
from tests.ledger.interleavings.user_programs import (
    adopts,
    deadline_passes,
    decides,
    lease_runs_out,
    pays,
    probes,
    relays,
    replays,
)

_CLAIMER: Final = Part("another worker", "worker", claims())
_REAPER: Final = Part("reaper", "coordinator", does(EXPIRE, in_one_step=True))
_REAPER_IN_TIME: Final = Part("reaper", "coordinator", lease_runs_out(EXPIRE))
_SCHEDULER: Final = Part("scheduler", "coordinator", does(DUE, in_one_step=True))
_WORKER_COMPLETES: Final = Part("worker", "worker", does(COMPLETE))
_PERSON_CANCELS: Final = Part("person", "producer", does(CANCEL), waits=True)
_RELAY: Final = Part("relay", "coordinator", relays())


def _handler(*, completes: bool = True, connection: str = "holds", then: str = "asks") -> Part:
    return Part("handler", "worker", pays(completes=completes, connection=connection, then=then), waits=True)


TRIPLES: Final = {
    triple.name: triple
    for triple in (
        Triple(
            "claim, claim, late complete",
            grounds.rung,
            (_CLAIMER, Part("third worker", "worker", claims()), _WORKER_COMPLETES),
        ),
        Triple(
            "claim, expire, complete",
            grounds.over,
            (
                _CLAIMER,
                Part("reaper", "coordinator", does(SEARCH_AND_EXPIRE, in_one_step=True)),
                _WORKER_COMPLETES,
            ),
        ),
        Triple(
            "claim, expire, complete of a started attempt that is not repeatable",
            grounds.started_once_over,
            (_CLAIMER, _REAPER, _WORKER_COMPLETES),
        ),
        Triple(
            "claim asked again, claim and release, late complete",
            grounds.rung,
            (
                Part("asks again", "worker", claims_again()),
                Part("another worker", "worker", claims_and_releases()),
                _WORKER_COMPLETES,
            ),
        ),
        Triple(
            "renew, complete, expire",
            grounds.running,
            (Part("lease keeper", "worker", does(RENEW)), _WORKER_COMPLETES, _REAPER_IN_TIME),
        ),
        Triple("cancel, complete, expire", grounds.running, (_PERSON_CANCELS, _WORKER_COMPLETES, _REAPER_IN_TIME)),
        Triple(
            "cancel, complete, expire of a started attempt that is not repeatable",
            grounds.started_once,
            (
                Part("person", "producer", does(CANCEL, in_one_step=True), waits=True),
                Part("worker", "worker", does(COMPLETE, in_one_step=True)),
                _REAPER_IN_TIME,
            ),
        ),
        Triple("complete_v1, expire, claim", grounds.over, (_handler(), _REAPER, _CLAIMER)),
        Triple("fence_v1, expire, claim", grounds.over, (_handler(completes=False), _REAPER, _CLAIMER)),
        Triple(
            "complete_v1 lost before its COMMIT, expire, claim",
            grounds.over,
            (_handler(connection="before"), _REAPER, _CLAIMER),
        ),
        Triple(
            "complete_v1 lost after its COMMIT, expire, claim",
            grounds.over,
            (_handler(connection="after"), _REAPER, _CLAIMER),
        ),
        Triple(
            "complete_v1, delayed fail, cancel",
            grounds.running,
            (_handler(), Part("worker", "worker", does(FAIL)), _PERSON_CANCELS),
        ),
        Triple(
            "complete_v1, renew, the deadline",
            grounds.with_deadline,
            (
                _handler(),
                Part("lease keeper", "worker", does(RENEW)),
                Part("time", "coordinator", deadline_passes()),
            ),
        ),
        Triple(
            "complete, the deadline and due, expire",
            grounds.over_with_deadline,
            (_WORKER_COMPLETES, Part("scheduler", "coordinator", deadline_passes(DUE)), _REAPER),
        ),
        Triple(
            "due, claim, cancel",
            grounds.lost,
            (Part("scheduler", "coordinator", does(SEARCH_AND_DUE, in_one_step=True)), _CLAIMER, _PERSON_CANCELS),
        ),
        Triple("due, late complete, cancel", grounds.lost_last, (_SCHEDULER, _WORKER_COMPLETES, _PERSON_CANCELS)),
        Triple("due, claim, late complete", grounds.lost_last, (_SCHEDULER, _CLAIMER, _WORKER_COMPLETES)),
        Triple(
            "late complete and its repetition, due, replay",
            grounds.lost_last,
            (
                Part("asks twice", "worker", does(COMPLETE, COMPLETE, in_one_step=True)),
                _SCHEDULER,
                Part("person", "operator", replays()),
            ),
        ),
        Triple(
            "release, delayed complete, claim",
            grounds.running,
            (Part("worker drains", "worker", does(RELEASE)), Part("delayed", "worker", does(COMPLETE)), _CLAIMER),
        ),
        Triple(
            "complete, fail, release of one attempt",
            grounds.running,
            (
                _WORKER_COMPLETES,
                Part("delayed failure", "worker", does(FAIL)),
                Part("delayed release", "worker", does(RELEASE)),
            ),
        ),
        Triple(
            "complete, complete otherwise, expire",
            grounds.over,
            (_WORKER_COMPLETES, Part("the same worker", "worker", does(COMPLETE_OTHERWISE)), _REAPER),
        ),
        Triple("fail, expire, claim", grounds.over, (Part("worker", "worker", does(FAIL)), _REAPER, _CLAIMER)),
        Triple(
            "fail with an unknown outcome, cancel, expire",
            grounds.over,
            (Part("worker", "worker", does(FAIL_UNSAFE)), _PERSON_CANCELS, _REAPER),
        ),
        Triple(
            "start, cancel, expire",
            grounds.claimed_once,
            (
                Part("worker", "worker", does(START, in_one_step=True)),
                Part("person", "producer", does(CANCEL, in_one_step=True), waits=True),
                _REAPER_IN_TIME,
            ),
        ),
        Triple(
            "start and release, expire, claim",
            grounds.claimed_once,
            (
                Part("worker", "worker", does(START, RELEASE, in_one_step=True)),
                _REAPER_IN_TIME,
                Part("another worker", "worker", claims(in_one_step=True)),
            ),
        ),
        Triple(
            "late complete, cancel, claim in review",
            grounds.review,
            (_WORKER_COMPLETES, _PERSON_CANCELS, _CLAIMER),
        ),
        Triple(
            "it happened, it did not, late complete",
            grounds.review,
            (
                Part("person", "operator", decides("happened"), waits=True),
                Part("another person", "operator", decides("retry"), waits=True),
                Part("worker", "worker", does(COMPLETE, in_one_step=True)),
            ),
        ),
        Triple(
            "it did not, cancel, claim in review",
            grounds.review,
            (Part("operator", "operator", decides("retry"), waits=True), _PERSON_CANCELS, _CLAIMER),
        ),
        Triple(
            "give up, replay, late complete",
            grounds.review,
            (
                Part("person", "operator", decides("give_up"), waits=True),
                Part("another person", "operator", replays()),
                _WORKER_COMPLETES,
            ),
        ),
        Triple(
            "late complete, due, replay",
            grounds.lost_last,
            (_WORKER_COMPLETES, _SCHEDULER, Part("person", "operator", replays())),
        ),
        Triple(
            "adopt, replay, claim",
            grounds.failed_with_a_kept_success,
            (
                Part("person", "operator", adopts(), waits=True),
                Part("another person", "operator", replays()),
                _CLAIMER,
            ),
        ),
        Triple(
            "asked, complete_v1, expire",
            grounds.over,
            (Part("worker", "worker", does(ASKED)), _handler(), _REAPER),
        ),
        Triple(
            "hand_back, claim, relay",
            grounds.queued,
            (Part("worker drains", "worker", does(HAND_BACK)), _CLAIMER, _RELAY),
        ),
        Triple(
            "reconcile, relay whose message is lost, claim that dies",
            grounds.queued_and_lossy,
            (
                Part("coordinator", "coordinator", probes(RECONCILE)),
                Part("relay", "coordinator", relays(in_two_steps=True)),
                Part("worker that dies", "worker", claims(dies=True)),
            ),
        ),
        Triple(
            "relay, relay that dies, claim and release",
            grounds.queued,
            (
                _RELAY,
                Part("relay that dies", "coordinator", relays(dies=True)),
                Part("worker", "worker", claims_and_releases(for_doorbell=True)),
            ),
        ),
        Triple(
            "expire, expire, late complete",
            grounds.over,
            (_REAPER, Part("second reaper", "coordinator", does(EXPIRE, in_one_step=True)), _WORKER_COMPLETES),
        ),
        *batches.TRIPLES,
        *pausing.TRIPLES,
        *effect_triples.TRIPLES,
        *resources.TRIPLES,
        *artifacts.TRIPLES,
    )
}
