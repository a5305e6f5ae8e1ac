"""The explorer itself: it plays every order, stops sessions where it says it does, and tells the shortest story."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.ledger.interleavings import grounds
from tests.ledger.interleavings.explorer import Explorer, Part, Triple, session_of
from tests.ledger.interleavings.flaws import FLAWS, planted
from tests.ledger.interleavings.programs import CANCEL, COMPLETE, FAIL, RELEASE, does
from tests.ledger.interleavings.sessions import BUSY, Status
from tests.ledger.interleavings.shortest import first_broken, shortest
from tests.ledger.interleavings.triples import TRIPLES
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from tests.ledger.interleavings.scenes import Stage

pytestmark = pytest.mark.timeout(300)  # bounded by the number of orders; the machine may be busy

THREE_REPORTS = TRIPLES["complete, fail, release of one attempt"]


def test_explorer__lets_sessions_decide_in_every_order(stage: Stage) -> None:
    stories = list(Explorer(stage, THREE_REPORTS))

    committed = [tuple(line.who for line in story.lines if line.what.endswith("commits")) for story in stories]
    names = [part.name for part in THREE_REPORTS.parts]
    assert sorted(committed) == sorted(itertools.permutations(names))


def test_explorer__lets_others_come_between_lock_and_decision_and_between_decision_and_commit(stage: Stage) -> None:
    """Whoever comes then is told `locked`: in the one case the row is only taken, in the other it is written too."""
    met: set[tuple[str, str, str]] = set()
    explorer = Explorer(stage, THREE_REPORTS)
    list(explorer)
    for story in explorer.played:
        at: dict[str, str] = {}
        for line in story.lines:
            if line.what == BUSY:
                met |= {(line.who, who, what) for who, what in at.items() if who != line.who}
            elif line.what.endswith("commits"):
                at.pop(line.who)
            else:
                at[line.who] = "took the row" if line.what == "stops before it decides" else "wrote"

    names = [part.name for part in THREE_REPORTS.parts]
    assert met == {
        (one, other, stage_of_other)
        for one, other in itertools.permutations(names, 2)
        for stage_of_other in ("took the row", "wrote")
    }


def test_explorer__knows_who_waits(stage: Stage) -> None:
    """A function that may wait for a row does, and goes on by itself when the row is free."""
    triple = Triple(
        "complete, cancel",
        grounds.running,
        (Part("worker", "worker", does(COMPLETE)), Part("person", "producer", does(CANCEL), waits=True)),
    )
    told = [[str(line) for line in story.lines] for story in Explorer(stage, triple)]

    assert [
        "worker: stops before it decides",
        "person: waits",
        "worker: complete: accepted, not yet committed",
        "worker: complete: commits",
        "person: stops before it decides",
        "person: cancel: refused, not yet committed",
        "person: cancel: commits",
    ] in told


def test_session__that_a_stranger_holds_up_does_not_wait(stage: Stage) -> None:
    """Autovacuum takes a table that was emptied, for a moment: nothing that the ledger does."""
    scene = grounds.running(stage.ledger)
    session = session_of(stage, scene, 0, Part("worker", "worker", does(COMPLETE)))
    held_up = "select cardinality(pg_blocking_pids(%s)) > 0"
    with psycopg.connect(stage.ledger.database.admin_url) as stranger, ThreadPoolExecutor(1) as thread:
        stranger.execute("lock table brokerjobs.job_state in access exclusive mode")
        step = thread.submit(session.step)
        eventually_sync(lambda: stranger.execute(held_up, [session.hand.pid]).fetchone() == (True,))
        stranger.rollback()
        step.result()

    assert (session.status, session.said) == (Status.GATED, ["stops before it decides"])
    session.abandon()
    stage.clear()


def test_explorer__plays_the_same_orders_every_time(stage: Stage) -> None:
    triple = TRIPLES["expire, expire, late complete"]
    first, second = ([story.order for story in Explorer(stage, triple)] for _ in range(2))

    assert first == second


def test_shortest__leaves_out_who_is_not_needed(stage: Stage) -> None:
    flaw = next(flaw for flaw in FLAWS if flaw.name == "A16: a released attempt's delayed success is accepted")
    triple = Triple(
        "fail, release, complete",
        grounds.running,
        (
            Part("bystander", "worker", does(FAIL)),
            Part("drains", "worker", does(RELEASE)),
            Part("delayed", "worker", does(COMPLETE)),
        ),
    )
    with planted(stage, flaw):
        found = first_broken(stage, triple)
        assert found is not None
        story = shortest(stage, triple, found)

    assert len({line.who for line in story.lines}) == 2
    assert story.broken
    assert str(story).splitlines()[-1].startswith("  BROKEN: ")
