"""The checker of invariants sees what it is for: each rule is broken once, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

import pytest

from brokerjobs import needs
from tests.ledger.invariants import RULES, violations
from tests.ledger.needing import needing

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

# How the owner, with triggers out of the way, breaks each rule: on a job with two attempts, the first lost, the second
# accepted, or, where it says so, on a running or queued one.
OF_JOBS: dict[str, tuple[str, LiteralString]] = {
    "one result is accepted at most": (
        "done",
        """drop index brokerjobs.attempt_accepted; update brokerjobs.attempt set verdict = 'accepted',
          reported_at = closed_at, reported_as = 'completed' where job_id = %(job)s""",
    ),
    "a succeeded job names its accepted attempt, or the review in which a person said that it happened": (
        "done",
        "update brokerjobs.job_state set accepted_attempt_id = gen_random_uuid() where job_id = %(job)s",
    ),
    "an accepted attempt's job has succeeded": (
        "done",
        "update brokerjobs.job_state set state = 'cancelled' where job_id = %(job)s",
    ),
    "the accepted attempt holds the job's last fencing number": (
        "done",
        "update brokerjobs.job_state set fencing_number = fencing_number + 1 where job_id = %(job)s",
    ),
    "fencing numbers grow with every attempt": (
        "done",
        "update brokerjobs.attempt set fencing_number = 7 where job_id = %(job)s",
    ),
    "attempts are numbered from one without a gap": (
        "done",
        "delete from brokerjobs.attempt where job_id = %(job)s and number = 1",
    ),
    "an attempt is open exactly while its job runs it": (
        "running",
        "update brokerjobs.attempt set closed_at = brokerjobs.clock(), closed_as = 'timed_out' where job_id = %(job)s",
    ),
    "only a timed out attempt may be closed without a report": (
        "done",
        "update brokerjobs.attempt set closed_as = 'failed' where job_id = %(job)s and number = 1",
    ),
    "the row knows whether its attempt has reported": (
        "done",
        "update brokerjobs.job_state set reported = false where job_id = %(job)s",
    ),
    "charges are the attempts that count": (
        "done",
        "update brokerjobs.attempt set charged = false where job_id = %(job)s and number = 1",
    ),
    "charges stay within their bounds": (
        "done",
        "update brokerjobs.job_state set charged = -1, uncharged = 3 where job_id = %(job)s",
    ),
    "nobody claims before the time of the next try": (
        "done",
        """update brokerjobs.attempt set answer_until = closed_at + interval '1 year'
          where job_id = %(job)s and number = 1""",
    ),
    "a cancel request is obeyed, unless a person decided otherwise": (
        "queued",
        "update brokerjobs.job_state set cancel = '{}' where job_id = %(job)s",
    ),
    "no result is accepted once the deadline has passed": (
        "done",
        "update brokerjobs.job_state set deadline = finished_at where job_id = %(job)s",
    ),
    "an unknown outcome is not repeated before a person has decided": (
        "done",
        """update brokerjobs.attempt set failure = '{"class": "unsafe"}' where job_id = %(job)s and number = 1""",
    ),
    "an unknown outcome is not hidden by the job's end before a person has decided": (
        "done",
        """update brokerjobs.job_state set state = 'failed', failure_class = '' where job_id = %(job)s;
          update brokerjobs.attempt set failure = '{"class": "unsafe"}', verdict = 'rejected'
          where job_id = %(job)s and number = 2""",
    ),
    "an unknown effect that may not be repeated is in a running job or in review, unless a person gave it up": (
        "queued",
        """insert into brokerjobs.effect (job_id, name, try, key, repeatable, made_at)
          values (%(job)s, 'x', 1, '', false, brokerjobs.clock())""",
    ),
    "the row knows whether an effect is unknown": (
        "running",
        """insert into brokerjobs.effect (job_id, name, try, key, repeatable, made_at)
          values (%(job)s, 'x', 1, '', false, brokerjobs.clock())""",
    ),
    "a success hides no unknown effect": (
        "done",
        """insert into brokerjobs.effect (job_id, name, try, key, repeatable, made_at)
          values (%(job)s, 'x', 1, '', false, brokerjobs.clock())""",
    ),
    "an effect is tried again only once it is known not to have happened": (
        "running",
        """insert into brokerjobs.effect (job_id, name, try, key, repeatable, made_at)
          values (%(job)s, 'x', 1, '', true, brokerjobs.clock()), (%(job)s, 'x', 2, '', true, brokerjobs.clock())""",
    ),
    "an effect that may not be repeated is permitted to one attempt": (
        "done",
        """insert into brokerjobs.effect (job_id, name, try, key, repeatable, made_at)
          values (%(job)s, 'x', 1, '', false, brokerjobs.clock());
          insert into brokerjobs.effect_intent (job_id, name, try, attempt_id, fencing_number, at, observed_at,
            time_limit, login) select job_id, 'x', 1, id, fencing_number, claimed_at, claimed_at, '1 s', ''
          from brokerjobs.attempt where job_id = %(job)s""",
    ),
    "a review is about an attempt that has started, or said so, or about an effect": (
        "done",
        """insert into brokerjobs.review (id, job_id, attempt_id, cause, opened_at, closed_at)
          select gen_random_uuid(), job_id, id, '', claimed_at, claimed_at from brokerjobs.attempt
          where job_id = %(job)s and number = 1""",
    ),
    "a review is open exactly while its job stands in review": (
        "done",
        """insert into brokerjobs.review (id, job_id, cause, opened_at)
          values (gen_random_uuid(), %(job)s, '', brokerjobs.clock())""",
    ),
    "no attempt from before a replay is accepted after it": (
        "done",
        """insert into brokerjobs.event (seq, at, job_id, kind, state) select seq, at, job_id, 'replayed', 'queued'
          from brokerjobs.event where job_id = %(job)s and kind = 'claimed'""",
    ),
    "exactly the failed jobs are among the dead": (
        "running",
        """insert into brokerjobs.dead (job_id, group_id, namespace, type, failure_class, message, failed_at)
          values (%(job)s, '', '', '', '', '', brokerjobs.clock())""",
    ),
    "a queued job has a ring or a time": ("queued", "delete from brokerjobs.outbox where job_id = %(job)s"),
    "the last event says where the job stands": (
        "running",
        "insert into brokerjobs.event (at, job_id, kind, state) values (brokerjobs.clock(), %(job)s, '', 'queued')",
    ),
    "every recorded move is allowed": (
        "done",
        "insert into brokerjobs.event (at, job_id, kind, state) values (brokerjobs.clock(), %(job)s, '', 'running')",
    ),
    "a job that succeeded or was cancelled stays so": (
        "done",
        "insert into brokerjobs.event (at, job_id, kind, state) values (brokerjobs.clock(), %(job)s, '', 'failed')",
    ),
}
# Those about resources, each by a change of one job among those that need the same.
OF_RESOURCES: dict[str, tuple[str, LiteralString]] = {
    "a running attempt has a place of each resource that its job needs": (
        "second holder",
        "update brokerjobs.resource set attempt_id = null where job_id = %(job)s",
    ),
    "no more attempts hold a resource than it has places": (
        "beside another",
        """update brokerjobs.job set resources = '[{"name": "account", "limit": 1}]' where id = %(job)s""",
    ),
    "an exclusive resource is taken when its last holder's attempt is closed, not before": (
        "second holder",
        "update brokerjobs.attempt set claimed_at = claimed_at - interval '1 s' where job_id = %(job)s",
    ),
    "fencing numbers grow from holder to holder of a resource": (
        "second holder",
        "update brokerjobs.attempt set fencing_number = 7 where job_id = %(job)s",
    ),
    "no result is accepted once another attempt has taken its resource": (
        "first holder",
        """update brokerjobs.event set seq = nextval('brokerjobs.event_seq')
          where job_id = %(job)s and kind = 'succeeded'""",
    ),
    "nobody takes a resource before those who wait for it longer": (
        "newcomer",
        "update brokerjobs.attempt set claimed_at = claimed_at - interval '1 s' where job_id = %(job)s",
    ),
    "who waits for a resource stands in its line": (
        "waiter",
        "delete from brokerjobs.waiter where job_id = %(job)s",
    ),
}
BREAKS = OF_JOBS | OF_RESOURCES


def _job(ledger: Ledger, kind: str) -> UUID:
    job = ledger.submit()
    if kind == "running":
        ledger.worker.take(job)
    if kind == "done":
        ledger.lose(ledger.worker.take(job))
        ledger.ring_again(job)
        ledger.worker.complete(ledger.worker.take(job))
    return job


def _jobs_of_resource(ledger: Ledger, kind: str) -> list[UUID]:
    """Jobs that need the same resource, that of this kind first."""
    need = needs.limit("account", 2) if kind == "beside another" else needs.exclusive("account")
    first, second = needing(ledger, need), needing(ledger, need)
    held = ledger.worker.take(first)
    match kind:
        case "beside another":
            ledger.worker.take(second)
        case "waiter":
            assert ledger.worker.claim(second).verdict == "not_due"
        case "newcomer":
            assert ledger.worker.claim(second).verdict == "not_due"
            ledger.worker.complete(held)
            ledger.clock.advance(5)  # in which the second, rung, did not come
            newcomer = needing(ledger, need)
            ledger.worker.take(newcomer)
            return [newcomer, first, second]
        case _:
            ledger.worker.complete(held)
            ledger.worker.take(second)
    return [first, second] if kind == "first holder" else [second, first]


def test_invariants__are_all_broken_once() -> None:
    assert set(BREAKS) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_violations__names_the_rule_that_is_broken(ledger: Ledger, rule: str) -> None:
    kind, how = BREAKS[rule]
    jobs = _jobs_of_resource(ledger, kind) if rule in OF_RESOURCES else [_job(ledger, kind)]
    job = jobs[0]
    assert violations(ledger.owner, jobs) == []

    with ledger.owner.transaction(force_rollback=True):
        for table in ("job", "job_state", "attempt", "event"):
            ledger.owner.execute(f"alter table brokerjobs.{table} disable trigger user".encode())
        for statement in how.split(";"):
            ledger.owner.execute(statement.encode(), {"job": job})
        found = violations(ledger.owner, jobs)

    assert (rule, job) in found
    assert rule not in OF_RESOURCES or found == [(rule, job)]
    assert violations(ledger.owner, jobs) == []
