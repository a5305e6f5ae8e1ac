"""The functions that wait for a job's row (cancel, fence_v1, complete_v1): how long, and what they see then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.ledger import pairs
from tests.ledger.invariants import violations
from tests.ledger.pairs import FUNCTIONS, ROLE, WAITING, Scene
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ledger.ledger_driver import Ledger

# What each waiting function must answer when the first commits while it waits: it sees what was committed.
AFTER = {
    ("claim", "over"): {"cancel": "requested", "fence_v1": "BJ003", "complete_v1": "BJ003"},
    ("start", "running"): {"cancel": "requested", "fence_v1": "None", "complete_v1": "False"},
    ("renew", "running"): {"cancel": "requested", "fence_v1": "None", "complete_v1": "False"},
    ("complete", "running"): {"cancel": "refused", "fence_v1": "BJ002", "complete_v1": "BJ002"},
    ("complete", "review"): {"cancel": "refused", "fence_v1": "BJ002", "complete_v1": "BJ002"},
    ("fail", "running"): {"cancel": "cancelled", "fence_v1": "BJ002", "complete_v1": "BJ002"},
    ("release", "running"): {"cancel": "cancelled", "fence_v1": "BJ002", "complete_v1": "BJ002"},
    ("expire", "over"): {"cancel": "cancelled", "fence_v1": "BJ003", "complete_v1": "True"},
    ("due", "waiting"): {"cancel": "cancelled", "fence_v1": "BJ003", "complete_v1": "True"},
    ("cancel", "running"): {"cancel": "requested", "fence_v1": "BJ003", "complete_v1": "BJ003"},
    ("cancel", "rung"): {"cancel": "cancelled", "fence_v1": "BJ003", "complete_v1": "BJ003"},
    ("fence_v1", "running"): {"cancel": "requested", "fence_v1": "None", "complete_v1": "False"},
    ("complete_v1", "running"): {"cancel": "refused", "fence_v1": "BJ002", "complete_v1": "BJ002"},
}


@pytest.mark.parametrize(("first", "ground"), AFTER, ids=["-".join(key) for key in AFTER])
def test_waiters__see_what_was_committed_meanwhile(ledger: Ledger, first: str, ground: str) -> None:
    """Every look after the lock must be a fresh one, whatever the statement saw before it waited."""
    make: Callable[[Ledger], Scene] = getattr(pairs, ground)
    ledger.declare("work", first_delay=timedelta(0), lease=timedelta(seconds=30))
    holder = ledger.open(ROLE.get(first, "worker"))
    with ThreadPoolExecutor(1) as thread:
        for second in WAITING:
            scene, waiter = make(ledger), ledger.open(ROLE.get(second, "worker"))
            holder.begin()
            FUNCTIONS[first](holder, scene)
            answer = thread.submit(FUNCTIONS[second], waiter, scene)
            eventually_sync(partial(ledger.is_blocked, waiter))
            holder.commit()

            assert (second, answer.result()) == (second, AFTER[first, ground][second])
            assert violations(ledger.owner, [scene.job]) == []


@pytest.mark.parametrize("waiting_function", WAITING)
def test_waiters__wait_two_seconds(ledger: Ledger, waiting_function: str) -> None:
    settings = ledger.rows.scalar(
        "select array_to_string(proconfig, ';') from pg_proc"
        " where pronamespace = 'brokerjobs'::regnamespace and proname = %s",
        [waiting_function],
        of=str,
    )

    assert "lock_timeout=2s" in settings.split(";")
