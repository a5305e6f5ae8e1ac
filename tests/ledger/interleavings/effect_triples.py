"""Triples of effects: who asks for permission, says what became of it or decides about it, on one row with others."""

from __future__ import annotations

from typing import Final

from tests.ledger.interleavings import effect_grounds, grounds
from tests.ledger.interleavings.effect_programs import (
    DID_NOT_HAPPEN,
    HAPPENED,
    HAPPENED_OTHERWISE,
    LIMIT,
    MAIL_HAPPENED,
    SECOND_HAPPENED,
    at_once,
    calls,
    claims_and_does_effect,
    discards,
    does_effect,
    finds,
    reconciles,
)
from tests.ledger.interleavings.explorer import Part, Triple
from tests.ledger.interleavings.programs import CANCEL, COMPLETE, DUE, EXPIRE, FAIL, RELEASE, RENEW, claims, does
from tests.ledger.interleavings.user_programs import adopts, deadline_passes, decides, lease_runs_out, pays, replays

_REAPER: Final = Part("reaper", "coordinator", does(EXPIRE, in_one_step=True))
_REAPER_IN_TIME: Final = Part("reaper", "coordinator", lease_runs_out(at_once(EXPIRE)))
_SAYS_SO: Final = Part("worker", "worker", does(HAPPENED, in_one_step=True))
_RETURNS: Final = Part("worker", "worker", does(at_once(HAPPENED), COMPLETE, in_one_step=True))
_NEXT: Final = Part("another worker", "worker", claims_and_does_effect())
_NEXT_IN_STEPS: Final = Part("another worker", "worker", claims_and_does_effect(in_one_step=False))
_CANCELS: Final = Part("producer", "producer", does(CANCEL, in_one_step=True), waits=True)
_RETRIES: Final = Part("person", "operator", decides("retry", in_one_step=True), waits=True)

TRIPLES: Final = (
    Triple(
        "effect, expire, claim and effect",
        grounds.running,
        (Part("worker", "worker", does_effect()), _REAPER_IN_TIME, _NEXT),
    ),
    Triple(
        "effect, release, claim and effect",
        grounds.running,
        (
            Part("its thread", "worker", does_effect()),
            Part("worker drains", "worker", does(at_once(RELEASE), in_one_step=True)),
            _NEXT_IN_STEPS,
        ),
    ),
    Triple(
        "effect, renew, expire",
        grounds.running,
        (
            Part("worker", "worker", does_effect()),
            Part("lease keeper", "worker", does(at_once(RENEW), in_one_step=True)),
            _REAPER_IN_TIME,
        ),
    ),
    Triple("late outcome, expire, claim and effect", effect_grounds.permitted_over, (_RETURNS, _REAPER, _NEXT)),
    Triple(
        "outcome, another outcome, expire",
        effect_grounds.permitted_over,
        (
            _RETURNS,
            Part("the same worker", "worker", does(HAPPENED_OTHERWISE, in_one_step=True)),
            _REAPER,
        ),
    ),
    Triple(
        "fail with an unknown effect, its outcome, cancel",
        effect_grounds.permitted,
        (
            Part("worker", "worker", does(FAIL, in_one_step=True)),
            Part("its thread", "worker", does(HAPPENED)),
            _CANCELS,
        ),
    ),
    Triple(
        "fail with an unknown effect, the deadline and due, its outcome",
        effect_grounds.permitted_with_deadline,
        (
            Part("worker", "worker", does(FAIL, in_one_step=True)),
            Part("scheduler", "coordinator", deadline_passes(DUE)),
            Part("its thread", "worker", does(at_once(HAPPENED), in_one_step=True)),
        ),
    ),
    Triple(
        "release with an unknown effect, its outcome, claim",
        effect_grounds.permitted,
        (
            Part("worker drains", "worker", does(RELEASE)),
            Part("its thread", "worker", does(HAPPENED, in_one_step=True)),
            Part("another worker", "worker", claims()),
        ),
    ),
    Triple(
        "complete with an unknown effect, its outcome, expire",
        effect_grounds.permitted_over,
        (
            Part("worker", "worker", does(COMPLETE, in_one_step=True)),
            Part("its thread", "worker", does(HAPPENED)),
            _REAPER,
        ),
    ),
    Triple(
        "complete_v1 with an unknown effect, its outcome, expire",
        effect_grounds.permitted_over,
        (Part("handler", "worker", pays(), waits=True), Part("its thread", "worker", does(HAPPENED)), _REAPER),
    ),
    Triple(
        "late outcome, cancel, claim in review",
        effect_grounds.unknown,
        (_SAYS_SO, _CANCELS, Part("another worker", "worker", claims())),
    ),
    Triple(
        "late outcome, it did not happen, it happened",
        effect_grounds.unknown,
        (_SAYS_SO, _RETRIES, Part("another person", "operator", decides("happened", in_one_step=True), waits=True)),
    ),
    Triple(
        "late outcome and success, it did not happen, claim and effect",
        effect_grounds.unknown,
        (_RETURNS, _RETRIES, _NEXT),
    ),
    Triple(
        "late outcome that leaves the review open, it did not happen, cancel",
        effect_grounds.unknown_once,
        (_SAYS_SO, _RETRIES, _CANCELS),
    ),
    Triple(
        "outcomes of two effects, it did not happen",
        effect_grounds.two_unknown,
        (_SAYS_SO, Part("its other thread", "worker", does(MAIL_HAPPENED, in_one_step=True)), _RETRIES),
    ),
    Triple(
        "a reconciler found that it happened, it did not happen, late outcome and success",
        effect_grounds.asked_about,
        (Part("reconciler", "worker", finds(happened=True), waits=True), _RETRIES, _RETURNS),
    ),
    Triple(
        "reconciler, call that is under way, claim and effect after its time limit",
        effect_grounds.under_way,
        (
            Part("reconciler", "worker", reconciles(), waits=True),
            Part("worker", "worker", calls()),
            Part("another worker", "worker", claims_and_does_effect(after=LIMIT)),
        ),
    ),
    Triple(
        "it did not happen of the first, it happened of the second, claim and effect with the same key",
        effect_grounds.one_key_for_two,
        (
            Part("first worker", "worker", does(DID_NOT_HAPPEN)),
            Part("second worker", "worker", does(SECOND_HAPPENED, in_one_step=True)),
            Part("third worker", "worker", claims_and_does_effect(repeatable=True, after=30)),
        ),
    ),
    Triple(
        "late outcome, cancel, claim and effect when its key is no longer known",
        effect_grounds.key_of_a_while,
        (
            _SAYS_SO,
            _CANCELS,
            Part(
                "another worker",
                "worker",
                claims_and_does_effect(repeatable=True, valid_for=effect_grounds.KEY_IS_KNOWN, after=30),
            ),
        ),
    ),
    Triple(
        "late outcome of an earlier try, claim and effect, expire",
        effect_grounds.tried_twice,
        (_RETURNS, _NEXT, _REAPER_IN_TIME),
    ),
    Triple(
        "replay, cancel, late outcome of an effect that was given up",
        effect_grounds.given_up,
        (Part("person", "operator", replays()), _CANCELS, _SAYS_SO),
    ),
    Triple(
        "claim and effect, cancel, late outcome of an effect that was given up",
        effect_grounds.given_up_and_replayed,
        (_NEXT, _CANCELS, _SAYS_SO),
    ),
    Triple(
        "adopt, replay, late outcome of an effect that was given up",
        effect_grounds.given_up_with_a_kept_success,
        (Part("person", "operator", adopts(), waits=True), Part("another person", "operator", replays()), _SAYS_SO),
    ),
    Triple(
        "adopt, replay, discard",
        grounds.failed_with_a_kept_success,
        (
            Part("person", "operator", adopts(), waits=True),
            Part("another person", "operator", replays()),
            Part("third person", "operator", discards()),
        ),
    ),
)
