"""Fencing numbers: larger for every later lease of a job, whatever clocks and fail-overs do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from uuid_utils.compat import uuid7

from tests.ledger.invariants import violations
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

DAY = 86_400_000


def _generation(ledger: Ledger) -> int:
    return ledger.rows.scalar("select generation from brokerjobs.meta", of=int)


def test_fencing_number__is_the_time_in_milliseconds(ledger: Ledger) -> None:
    number = ledger.worker.take(ledger.submit()).fencing_number

    assert abs(number - ledger.clock.now.timestamp() * 1000 - _generation(ledger) * DAY) <= 1


def test_fencing_number__grows_when_the_clock_goes_back(own_ledger: Ledger) -> None:
    ledger = own_ledger
    job = ledger.submit()
    numbers: list[int] = []
    for _ in range(4):
        holding = ledger.worker.take(job)
        numbers.append(holding.fencing_number)
        ledger.worker.release(holding)
        ledger.clock.advance(-600)

    assert numbers == [numbers[0] + n for n in range(4)]
    assert violations(ledger.owner) == []


def test_renew__does_not_shorten_a_lease_when_the_clock_goes_back(own_ledger: Ledger) -> None:
    holding = own_ledger.worker.take(own_ledger.submit())
    until = own_ledger.rows.state(holding.job_id).lease_until
    own_ledger.clock.advance(-600)

    assert own_ledger.worker.renew(holding).verdict == "kept"
    assert own_ledger.rows.state(holding.job_id).lease_until == until


@pytest.mark.parametrize("sign", ["timeline = '00000000'", "system_identifier = system_identifier - 1"])
def test_generation__rises_once_when_another_server_answers(ledger: Ledger, sign: str) -> None:
    """A promoted standby, or a restored one, may be behind: its numbers jump by a day."""
    before, first = _generation(ledger), ledger.worker.take(ledger.submit()).fencing_number
    ledger.owner.execute(f"update brokerjobs.meta set {sign}".encode())

    second, third = (ledger.worker.take(ledger.submit()).fencing_number for _ in range(2))

    assert _generation(ledger) == before + 1
    assert abs(second - first - DAY) <= 1
    assert third == second


def test_generation__keeps_numbers_growing_on_a_server_that_is_behind(own_ledger: Ledger) -> None:
    ledger = own_ledger
    job = ledger.submit()
    lost = ledger.worker.take(job)
    # Fail-over: the claim was never replicated, and the clock of the promoted server is ten minutes behind.
    ledger.clock.advance(-600)
    ledger.owner.execute("update brokerjobs.meta set timeline = '00000000'")
    ledger.owner.execute("alter table brokerjobs.attempt disable trigger user")
    ledger.owner.execute("delete from brokerjobs.attempt")
    ledger.owner.execute("alter table brokerjobs.job_state disable trigger user")
    ledger.owner.execute(
        "update brokerjobs.job_state set state = 'queued', waiting = 'delivery', attempt_id = null, fencing_number = 0,"
        " number = 0, charged = 0, lease_until = null, first_claimed_at = null"
    )
    ledger.owner.execute("alter table brokerjobs.job_state enable trigger user")

    again = ledger.worker.take(job)

    assert again.fencing_number > lost.fencing_number
    assert ledger.worker.complete(lost).reason == "unknown_attempt"


def test_generation__being_raised_by_another_answers_locked(ledger: Ledger) -> None:
    job, other = ledger.submit(), ledger.submit()
    ledger.owner.execute("update brokerjobs.meta set timeline = '00000000'")
    raising = ledger.open()
    raising.begin()
    assert raising.claim(job).verdict == "granted"
    ledger.worker.sql("set lock_timeout = '1ms'")

    held = ledger.worker.claim_all([(other, uuid7()), (job, uuid7())])
    raising.commit()
    ledger.worker.sql("reset lock_timeout")

    assert [answer.verdict for answer in held] == ["locked", "locked"]
    assert ledger.worker.claim(other).verdict == "granted"


def test_generation__is_raised_once_by_many_at_once(ledger: Ledger) -> None:
    callers = [ledger.open() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        for _ in range(8):
            before = _generation(ledger)
            jobs = [ledger.submit() for _ in callers]
            ledger.owner.execute("update brokerjobs.meta set timeline = '00000000'")

            assert set(threads.map(_claim_until_answered, callers, jobs)) == {"granted"}
            assert _generation(ledger) == before + 1


def _claim_until_answered(caller: Caller, job: UUID) -> str:
    while (verdict := caller.claim(job).verdict) == "locked":
        pass
    return verdict


def test_generation__raised_by_another_between_two_looks_is_not_raised_again(ledger: Ledger) -> None:
    """The lock of the table holds the claim between its first look, which sees the old timeline, and the row's lock."""
    before = _generation(ledger)
    timeline = ledger.rows.scalar("select timeline from brokerjobs.meta", of=str)
    job = ledger.submit()
    ledger.owner.execute("update brokerjobs.meta set timeline = '00000000'")
    other = ledger.open("owner")
    other.begin()
    other.sql("lock table brokerjobs.meta in exclusive mode")
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(_claim_until_answered, ledger.worker, job)
        eventually_sync(lambda: ledger.is_blocked(ledger.worker))
        other.sql("update brokerjobs.meta set generation = generation + 1, timeline = %s", timeline)
        other.commit()

        assert answer.result() == "granted"
    assert _generation(ledger) == before + 1


def test_new_generation__is_raised_by_hand_after_a_restore(ledger: Ledger) -> None:
    before = ledger.worker.take(ledger.submit()).fencing_number
    ledger.owner.execute("select brokerjobs.new_generation()")

    assert ledger.worker.take(ledger.submit()).fencing_number - before == DAY
