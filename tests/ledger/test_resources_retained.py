"""Resources that nobody uses any more go with the last job that named them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs import needs
from tests.ledger.needing import holders, needing

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

DAY = 86400.0


def places(ledger: Ledger, name: str) -> int:
    """How many places a resource has."""
    query = "select count(*) from brokerjobs.resource where namespace = %s and name = %s"
    return ledger.rows.scalar(query, [ledger.place.namespace, name], of=int)


def retain(ledger: Ledger) -> int:
    """Removes what has ended two days ago; how many jobs."""
    return int(ledger.coordinator.sql("select jobs from brokerjobs.retain_jobs('2 days', '4 days', 100)")[0][0])


def done(ledger: Ledger, *wanted: str | needs.Need) -> UUID:
    job = needing(ledger, *wanted)
    ledger.worker.complete(ledger.worker.take(job))
    return job


def test_resource__goes_with_the_last_job_that_named_it(own_ledger: Ledger) -> None:
    done(own_ledger, "account", needs.limit("smtp", 5))
    own_ledger.clock.advance(DAY)
    done(own_ledger, "account")
    own_ledger.clock.advance(DAY + 1)

    assert retain(own_ledger) == 1
    assert (places(own_ledger, "account"), places(own_ledger, "smtp")) == (1, 0)
    own_ledger.clock.advance(DAY)
    assert retain(own_ledger) == 1
    assert places(own_ledger, "account") == 0


def test_resource__that_nobody_took_goes_with_the_job_that_was_cancelled(own_ledger: Ledger) -> None:
    own_ledger.producer.cancel(needing(own_ledger, "account"))
    own_ledger.clock.advance(4 * DAY + 1)

    assert (retain(own_ledger), places(own_ledger, "account")) == (1, 0)


@pytest.mark.parametrize("who", ["holds it", "may still be accepted", "waits for it", "is claiming it"])
def test_resource__stays_while_somebody(own_ledger: Ledger, who: str) -> None:
    ledger = own_ledger
    done(ledger, needs.limit("smtp", 2))
    other = ledger.open()
    if who != "is claiming it":
        held = ledger.worker.take(needing(ledger, needs.limit("smtp", 2)))
        if who == "may still be accepted":
            ledger.lose(held)
        if who == "waits for it":  # it was rung, and has not come yet
            second = ledger.worker.take(needing(ledger, needs.limit("smtp", 2)))
            assert ledger.worker.claim(needing(ledger, needs.limit("smtp", 2))).verdict == "not_due"
            ledger.worker.complete(held)
            ledger.worker.complete(second)
    ledger.clock.advance(2 * DAY + 1)
    if who == "is claiming it":
        job = needing(ledger, needs.limit("smtp", 2))
        other.begin()
        assert other.claim(job).verdict == "granted"

    assert (retain(ledger), places(ledger, "smtp")) == (3 if who == "waits for it" else 1, 2)
    if who == "is claiming it":
        other.commit()
        assert len(holders(ledger, "smtp")) == 1


def test_resource__that_was_removed_is_made_again_and_its_numbers_grow(own_ledger: Ledger) -> None:
    before = own_ledger.worker.take(needing(own_ledger, "account"))
    own_ledger.worker.complete(before)
    own_ledger.clock.advance(2 * DAY + 1)
    assert retain(own_ledger) == 1

    after = own_ledger.worker.take(needing(own_ledger, "account"))

    assert after.fencing_number > before.fencing_number
