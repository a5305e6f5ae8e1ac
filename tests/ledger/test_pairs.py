"""Rule R9: every pair of ledger functions on one job, the first in a transaction that stays open for the second.

A batch function says `locked` or passes the job over, at once; a function that waits gives up after its lock_timeout.
Whatever becomes of the first, the invariants hold afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from uuid_utils.compat import uuid7

from tests.ledger.invariants import violations
from tests.ledger.pairs import FUNCTIONS, GAVE_UP, LOCKED, ROLE, WAITING, Scene, over, review, rung, running, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Doors, Ledger

# Where the first function has something to do, so that it holds the job's row.
GROUNDS: dict[str, tuple[Callable[[Ledger], Scene], ...]] = {
    "claim": (rung, over),
    "start": (running,),
    "renew": (running,),
    "complete": (running, waiting),
    "fail": (running, waiting),
    "release": (running,),
    "asked": (running,),
    "expire": (over,),
    "due": (waiting,),
    "hand_back": (rung,),
    "cancel": (running, rung),
    "fence_v1": (running,),
    "complete_v1": (running, review),
}
CASES = [
    pytest.param(first, ground, end, id=f"{first}-{ground.__name__}-{end}")
    for first, grounds in GROUNDS.items()
    for ground in grounds
    for end in ("commit", "rollback")
    if end == "commit" or ground is grounds[0]
]


def _expected_while_held(second: str) -> set[str]:
    if second in WAITING:
        return {GAVE_UP}
    if second in {"expire", "due"}:
        return {"passed over"}
    return {"0", "1"} if second == "hand_back" else {LOCKED}


@pytest.fixture(scope="module")
def impatient(doors: Doors) -> dict[tuple[str, str], str]:
    """Makes those that wait give up soon (test_waiters has their real time); what each function answers alone."""
    owner = doors.connect("owner")
    signatures = owner.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = 'brokerjobs'::regnamespace and proname = any (%s)",
        [list(WAITING)],
    ).fetchall()
    for (signature,) in signatures:
        owner.execute(
            f"alter function brokerjobs.{signature.removeprefix('brokerjobs.')} set lock_timeout = '10ms'".encode()
        )
    doors.give_back("owner", owner)
    return {}


@pytest.fixture
def terms(ledger: Ledger) -> Ledger:
    """Types whose retries come soon, so that a lost job is claimable within its lease."""
    ledger.declare("work", first_delay=timedelta(milliseconds=1), lease=timedelta(seconds=30))
    return ledger


def _opened(ledger: Ledger, name: str) -> Caller:
    caller = ledger.open(ROLE.get(name, "worker"))
    caller.sql("set lock_timeout = '1ms'")  # a batch function that waits at all fails the test
    return caller


@pytest.mark.parametrize(("first", "ground", "end"), CASES)
def test_pairs__do_not_wait_and_leave_a_sound_ledger(
    terms: Ledger, impatient: dict[tuple[str, str], str], first: str, ground: Callable[[Ledger], Scene], end: str
) -> None:
    holder = _opened(terms, first)
    callers = {second: _opened(terms, second) for second in FUNCTIONS}
    answers_alone = impatient
    for second, call in FUNCTIONS.items():
        if (ground.__name__, second) not in answers_alone:
            answers_alone[ground.__name__, second] = call(callers[second], ground(terms))
        alone = answers_alone[ground.__name__, second]
        scene = ground(terms)
        before = terms.rows.state(scene.job)
        # Both use the attempt in hand, except that two claims are of two workers.
        other = replace(scene, next_attempt=uuid7()) if second == "claim" else scene

        holder.begin()
        did = FUNCTIONS[first](holder, scene)
        held = call(callers[second], other)
        holder.end(end)

        assert not did.startswith("BJ"), did
        if first == "hand_back":
            assert (second, held) == (second, alone)
        else:
            assert held in _expected_while_held(second), (second, held)
            assert end == "commit" or terms.rows.state(scene.job) == before
            again = call(callers[second], other)
            assert again not in {LOCKED, GAVE_UP}, (second, again)
            assert end == "commit" or again == alone, (second, again, alone)
        assert violations(terms.owner, [scene.job]) == []
    for caller in (holder, *callers.values()):
        caller.sql("reset lock_timeout")
