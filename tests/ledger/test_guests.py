"""fence_v1 and complete_v1 in a caller's own transaction: they raise, so that it cannot commit (rule R9)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from tests.ledger.ledger_caller import RESULT, Caller
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

BOTH = pytest.mark.parametrize("call", [Caller.fence_v1, Caller.complete_v1])
IDLE = "select current_setting('idle_in_transaction_session_timeout')"


@pytest.fixture
def guest(ledger: Ledger) -> Caller:
    """A handler's own session: the worker's login, with a table of the user's own."""
    ledger.owner.execute("create table if not exists public.payment (job uuid)")
    ledger.owner.execute("grant insert, select on public.payment to brokerjobs_worker")
    return ledger.open()


@pytest.fixture
def guest_with_session(ledger: Ledger) -> Iterator[Caller]:
    """The same with a session that keeps its settings, which a pooler would not let it."""
    with psycopg.connect(ledger.database.direct.worker_url, autocommit=True) as connection:
        yield Caller(connection, ledger.place, ledger.clock)


def _payments(ledger: Ledger, holding: Holding) -> int:
    return ledger.rows.scalar("select count(*) from public.payment where job = %s", [holding.job_id], of=int)


def _refused(guest: Caller, call: Callable[[Caller, Holding], Any], holding: Holding) -> psycopg.DatabaseError:
    with pytest.raises(psycopg.DatabaseError) as refused:
        call(guest, holding)
    return refused.value


def test_complete_v1__commits_the_writes_and_the_result_together(ledger: Ledger, guest: Caller) -> None:
    holding = ledger.worker.take(ledger.submit())
    guest.begin()
    guest.sql("insert into payment values (%s)", holding.job_id)
    assert guest.complete_v1(holding) is False
    assert ledger.rows.state(holding.job_id).state == "running"
    guest.commit()

    state, attempt = ledger.rows.state(holding.job_id), ledger.rows.attempt(holding.attempt_id)
    assert (state.state, state.accepted_attempt_id) == ("succeeded", holding.attempt_id)
    assert (attempt.result, attempt.verdict, attempt.closed_as, _payments(ledger, holding)) == (
        RESULT,
        "accepted",
        "completed",
        1,
    )


def test_complete_v1__called_by_a_second_transaction_rolls_its_writes_back(ledger: Ledger, guest: Caller) -> None:
    """A retry after a COMMIT without an answer must not pay twice."""
    holding = ledger.worker.take(ledger.submit())
    guest.complete_v1(holding)
    guest.begin()
    guest.sql("insert into payment values (%s)", holding.job_id)

    assert _refused(guest, Caller.complete_v1, holding).sqlstate == "BJ002"
    guest.sql("commit")  # whatever the caller does now

    assert _payments(ledger, holding) == 0
    assert ledger.worker.complete(holding).verdict == "accepted"  # only the plain call answers a repeat


@BOTH
@pytest.mark.parametrize("report", [Caller.complete, Caller.fail, Caller.release])
def test_guests__after_any_report_have_reported_already(
    ledger: Ledger, guest: Caller, call: Callable[[Caller, Holding], Any], report: Callable[[Caller, Holding], Any]
) -> None:
    holding = ledger.worker.take(ledger.submit())
    report(ledger.worker, holding)

    assert _refused(guest, call, holding).sqlstate == "BJ002"


@BOTH
def test_guests__after_a_late_report_have_reported_already(
    ledger: Ledger, guest: Caller, call: Callable[[Caller, Holding], Any]
) -> None:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.ring_again(holding.job_id)
    ledger.worker.take(holding.job_id)
    ledger.worker.complete(holding)

    assert _refused(guest, call, holding).sqlstate == "BJ002"


def _superseded(ledger: Ledger) -> Holding:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.ring_again(holding.job_id)
    ledger.worker.take(holding.job_id)
    return holding


def _wrong_number(ledger: Ledger) -> Holding:
    holding = ledger.worker.take(ledger.submit())
    return replace(holding, fencing_number=holding.fencing_number - 1)


def _no_number(ledger: Ledger) -> Holding:
    nothing: Any = None
    return replace(ledger.worker.take(ledger.submit()), fencing_number=nothing)


def _nobody(ledger: Ledger) -> Holding:
    """A job that was never claimed names no attempt: nothing may hold that place."""
    nothing: Any = None
    return replace(ledger.worker.take(ledger.submit()), job_id=ledger.submit(), attempt_id=nothing, fencing_number=0)


def _stranger(ledger: Ledger) -> Holding:
    return replace(ledger.worker.take(ledger.submit()), attempt_id=uuid4())


def _unknown_job(ledger: Ledger) -> Holding:
    return replace(ledger.worker.take(ledger.submit()), job_id=uuid4())


def _finished(ledger: Ledger) -> Holding:
    holding = _superseded(ledger)
    ledger.worker.complete(ledger.worker.take(ledger.submit()))
    attempt = ledger.rows.state(holding.job_id).attempt_id
    assert attempt is not None
    current = replace(holding, attempt_id=attempt, fencing_number=ledger.rows.state(holding.job_id).fencing_number)
    ledger.worker.complete(current)
    return holding


def _cancelled(ledger: Ledger) -> Holding:
    holding = ledger.worker.take(ledger.submit())
    ledger.producer.cancel(holding.job_id)
    return holding


def _past_its_deadline(ledger: Ledger) -> Holding:
    holding = ledger.worker.take(ledger.submit(deadline=5))
    ledger.clock.advance(5)
    return holding


def _decided(ledger: Ledger) -> Holding:
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.owner.execute("update brokerjobs.job_state set attempt_id = null where job_id = %s", [holding.job_id])
    return holding


@BOTH
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_superseded, "newer_attempt"),
        (_wrong_number, "newer_attempt"),
        (_no_number, "newer_attempt"),
        (_nobody, "decided"),
        (_stranger, "newer_attempt"),
        (_unknown_job, "unknown_job"),
        (_finished, "job_succeeded"),
        (_cancelled, "job_cancelled"),
        (_past_its_deadline, "deadline"),
        (_decided, "decided"),
    ],
)
def test_guests__of_a_stale_attempt_cannot_commit(
    ledger: Ledger,
    guest: Caller,
    call: Callable[[Caller, Holding], Any],
    make: Callable[[Ledger], Holding],
    reason: str,
) -> None:
    holding = make(ledger)
    before = ledger.rows.state(holding.job_id) if reason != "unknown_job" else None
    guest.begin()
    guest.sql("insert into payment values (%s)", holding.job_id)

    error = _refused(guest, call, holding)
    guest.sql("commit")

    assert (error.sqlstate, error.diag.message_detail) == ("BJ003", reason)
    assert _payments(ledger, holding) == 0
    assert before is None or ledger.rows.state(holding.job_id) == before


def test_guests__of_a_lost_attempt_may_complete_but_not_fence(ledger: Ledger, guest: Caller) -> None:
    """A fence alone would commit work that is then repeated; a late result is the job's."""
    fenced, completed = ledger.worker.take(ledger.submit()), ledger.worker.take(ledger.submit())
    ledger.lose(fenced)

    error = _refused(guest, Caller.fence_v1, fenced)

    assert (error.sqlstate, error.diag.message_detail) == ("BJ003", "lease_expired")
    assert guest.complete_v1(completed) is True
    assert ledger.rows.attempt(completed.attempt_id).late is True


def test_fence_v1__lets_a_running_attempt_commit_and_changes_nothing(ledger: Ledger, guest: Caller) -> None:
    holding = ledger.worker.take(ledger.submit())
    before = ledger.rows.state(holding.job_id)
    for _ in range(2):
        guest.begin()
        guest.sql("insert into payment values (%s)", holding.job_id)
        guest.fence_v1(holding)
        guest.commit()

    assert (ledger.rows.state(holding.job_id), _payments(ledger, holding)) == (before, 2)
    assert ledger.worker.complete(holding).verdict == "accepted"


def test_complete_v1__rolled_back_leaves_the_attempt_as_it_was(ledger: Ledger, guest: Caller) -> None:
    holding = ledger.worker.take(ledger.submit())
    before = ledger.rows.state(holding.job_id), ledger.rows.events(holding.job_id)
    guest.begin()
    guest.complete_v1(holding)
    guest.rollback()

    assert (ledger.rows.state(holding.job_id), ledger.rows.events(holding.job_id)) == before
    assert ledger.worker.asked(holding).verdict == "not_reported"


@BOTH
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_guests__refuse_a_stricter_transaction(
    ledger: Ledger, guest: Caller, call: Callable[[Caller, Holding], Any], isolation: Any
) -> None:
    holding = ledger.worker.take(ledger.submit())
    guest.begin(isolation)

    error = _refused(guest, call, holding)
    guest.rollback()

    assert error.sqlstate == "BJ001"
    assert isolation.upper() in str(error)
    assert error.diag.message_hint == "Begin the transaction with ISOLATION LEVEL READ COMMITTED."


DECIDING: dict[str, Callable[[Caller, Holding], Any]] = {
    "claim": lambda c, h: c.claim(h.job_id),
    "start": Caller.start,
    "renew": Caller.renew,
    "complete": Caller.complete,
    "fail": Caller.fail,
    "release": Caller.release,
    "asked": Caller.asked,
}


@pytest.mark.parametrize("name", DECIDING)
def test_deciding_functions__refuse_a_stricter_transaction(ledger: Ledger, guest: Caller, name: str) -> None:
    holding = ledger.worker.take(ledger.submit())
    guest.begin("repeatable read")

    error = _refused(guest, DECIDING[name], holding)
    guest.rollback()

    assert error.sqlstate == "BJ001"


@pytest.mark.parametrize("call", [Caller.expire, Caller.due])
def test_services__refuse_a_stricter_transaction(ledger: Ledger, call: Callable[[Caller], Any]) -> None:
    ledger.coordinator.begin("serializable")
    with pytest.raises(psycopg.DatabaseError) as refused:
        call(ledger.coordinator)
    ledger.coordinator.rollback()

    assert refused.value.sqlstate == "BJ001"


@BOTH
@pytest.mark.parametrize(
    ("own", "during"),
    [("0", "10s"), ("15s", "10s"), ("250ms", "250ms"), ("1min", "10s"), ("7s", "7s"), ("1d", "10s"), ("30us", "0")],
)
def test_guests__limit_how_long_their_caller_may_stop(
    ledger: Ledger, guest_with_session: Caller, call: Callable[[Caller, Holding], Any], own: str, during: str
) -> None:
    """Never longer than ten seconds, nor than the caller himself wished, and only until his transaction ends."""
    guest = guest_with_session
    holding = ledger.worker.take(ledger.submit())
    guest.sql("select set_config('idle_in_transaction_session_timeout', %s, false)", own)
    mine = guest.sql(IDLE)
    guest.begin()
    call(guest, holding)
    if during != "0":
        assert guest.sql(IDLE) == [(during,)]
    else:
        assert guest.sql(IDLE) == [("10s",)]
    guest.rollback()

    assert guest.sql(IDLE) == mine


@BOTH
def test_guests__that_stop_in_their_transaction_free_the_row(
    ledger: Ledger, guest_with_session: Caller, call: Callable[[Caller, Holding], Any]
) -> None:
    """A stopped process answers no keepalive wrongly: only the server can end it."""
    guest = guest_with_session
    holding = ledger.worker.take(ledger.submit())
    guest.sql("set idle_in_transaction_session_timeout = '200ms'")
    guest.begin()
    call(guest, holding)
    assert ledger.worker.renew(holding).verdict == "locked"

    eventually_sync(lambda: ledger.worker.renew(holding).verdict == "kept", within_seconds=10)

    with pytest.raises((errors.IdleInTransactionSessionTimeout, psycopg.OperationalError)):
        guest.sql("commit")
    assert ledger.rows.state(holding.job_id).state == "running"


LIMIT = 262_144
UNFIT = {
    "deep": ("[" * 65 + "]" * 65, "it is nested deeper than 64 levels"),
    "digits": ('{"n": ' + "9" * 4301 + "}", "the integer at n has more than 4300 digits"),
    "large": ('"' + "x" * (LIMIT - 1) + '"', f"JSON, 1 over the limit of {LIMIT}; keep large data in an artifact: "),
    "large without spaces": ("[" + "1," * (LIMIT // 2) + "1]", f"it is {LIMIT + 3} bytes of JSON, 3 over the limit"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_complete_v1__refuses_a_result_that_nobody_takes_and_nothing_is_written(
    ledger: Ledger, guest: Caller, name: str
) -> None:
    """From plain SQL: in Python the type's model has seen to it before."""
    text, words = UNFIT[name]
    holding = ledger.worker.take(ledger.submit())
    guest.begin()
    guest.sql("insert into payment values (%s)", holding.job_id)

    with pytest.raises(errors.InvalidParameterValue, match=re.escape(words)):
        _complete(guest, holding, text)
    guest.sql("commit")

    assert _payments(ledger, holding) == 0
    assert ledger.worker.complete(holding).verdict == "accepted"  # it held no lock, and may still report


@pytest.mark.parametrize(
    "text",
    [
        "[" * 64 + "]" * 64,
        '"' + "x" * (LIMIT - 2) + '"',
        "[" + "1," * (LIMIT // 2 - 2) + "1]",
        "[" + "1e+300," * 30_000 + "1]",
        '{"' + "a " * 100_000 + '":"' + "0" * 60_000 + '"}',
        "null",
    ],
    ids=["deep", "large", "spaces", "exponents", "texts", "null"],
)
def test_complete_v1__takes_what_is_just_within_bounds(ledger: Ledger, guest: Caller, text: str) -> None:
    """Sizes are of what was sent: jsonb writes spaces, and zeros for exponents."""
    holding = ledger.worker.take(ledger.submit())

    _complete(guest, holding, text)

    assert ledger.rows.state(holding.job_id).state == "succeeded"


def _complete(guest: Caller, holding: Holding, text: str) -> None:
    place = (holding.job_id, holding.attempt_id, holding.fencing_number)
    guest.sql("select brokerjobs.complete_v1(%s, %s, %s, %s::jsonb)", *place, text)


def test_complete_v1__answers_a_cancel_in_flight_after_it(ledger: Ledger, guest: Caller) -> None:
    holding = ledger.worker.take(ledger.submit())
    guest.begin()
    guest.complete_v1(holding)
    with pytest.raises(errors.LockNotAvailable):
        ledger.owner.execute("select from brokerjobs.job_state where job_id = %s for update nowait", [holding.job_id])
    guest.commit()

    assert ledger.producer.cancel(holding.job_id).verdict == "refused"
