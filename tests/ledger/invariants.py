"""What must hold of every ledger at every moment, whatever was done to it: one query, a row for each violation.

For any test that has the owner's connection, while no transaction of the product is open:

    assert violations(owner) == []
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.rules.states import JOB_MOVES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    import psycopg

# Each asks for job ids over `s` (chosen rows of job_state), `a` (their attempts), `e` (their events that name a state),
# `unknown` (their attempts that ended with an unknown outcome, about which no person has decided), `held` (their
# attempts, once for each resource that they took, with the seq of their claim).
RULES: Final[dict[str, str]] = {
    "one result is accepted at most": """
        select job_id from a where verdict = 'accepted' group by job_id having count(*) > 1""",
    "a succeeded job names its accepted attempt, or the review in which a person said that it happened": """
        select s.job_id from s
          left join a on a.id = s.accepted_attempt_id and a.job_id = s.job_id
            and (a.verdict = 'accepted' or a.reported_as = 'completed' and exists (
              select from brokerjobs.event x where x.job_id = a.job_id and x.attempt_id = a.id and x.kind = 'adopted'))
          left join brokerjobs.review r on r.id = s.accepted_review_id and r.job_id = s.job_id
            and r.decision = 'happened'
        where s.state = 'succeeded' and (a.id is null) = (r.id is null)""",
    "an accepted attempt's job has succeeded": """
        select s.job_id from s join a using (job_id)
        where a.verdict = 'accepted' and (s.state, s.accepted_attempt_id) is distinct from ('succeeded', a.id)""",
    "the accepted attempt holds the job's last fencing number": """
        select s.job_id from s join a on a.id = s.accepted_attempt_id where a.fencing_number <> s.fencing_number""",
    "fencing numbers grow with every attempt": """
        select job_id from (select job_id, fencing_number <= lag(fencing_number) over w as bad from a
          window w as (partition by job_id order by number)) x where bad""",
    "attempts are numbered from one without a gap": """
        select s.job_id from s left join a using (job_id) group by s.job_id, s.number
        having s.number <> count(a.id) or s.number <> coalesce(max(a.number), 0)""",
    "an attempt is open exactly while its job runs it": """
        select s.job_id from s full join (select * from a where closed_at is null) o on o.job_id = s.job_id
        where (s.state = 'running') is distinct from (o.id is not null)
          or o.id is distinct from case when s.state = 'running' then s.attempt_id end""",
    "only a timed out attempt may be closed without a report": """
        select job_id from a where closed_at is not null and reported_at is null and closed_as <> 'timed_out'""",
    "the row knows whether its attempt has reported": """
        select s.job_id from s join a on a.id = s.attempt_id where s.reported <> (a.reported_at is not null)""",
    "charges are the attempts that count": """
        select s.job_id from s left join a using (job_id) group by s.job_id, s.charged, s.uncharged, s.number
        having s.charged <> count(a.id) filter (where a.charged) or s.charged + s.uncharged <> s.number""",
    "charges stay within their bounds": """
        select s.job_id from s join brokerjobs.job j on j.id = s.job_id
        where s.charged - s.forgiven not between 0 and coalesce(s.granted, j.retry_attempts)
          or s.forgiven not between 0 and s.charged or s.uncharged not between 0 and 20""",
    "nobody claims before the time of the next try": """
        select job_id from (select job_id, claimed_at < lag(answer_until) over w as bad from a
          window w as (partition by job_id order by number)) x where bad""",
    "a cancel request is obeyed, unless a person decided otherwise": """
        select s.job_id from s where s.cancel is not null and s.state not in ('running', 'review', 'cancelled')
          and not exists (select from brokerjobs.review r where r.job_id = s.job_id
            and (r.decision, s.state) in (('happened', 'succeeded'), ('give_up', 'failed')))""",
    "no result is accepted once the deadline has passed": """
        select s.job_id from s join a on a.id = s.accepted_attempt_id where s.deadline <= a.reported_at""",
    # Started, not repeatable, and its handler has not said that it may be repeated: nobody knows what it did.
    "an unknown outcome is not repeated before a person has decided": """
        select u.job_id from unknown u join a on a.job_id = u.job_id and a.number > u.number""",
    "an unknown outcome is not hidden by the job's end before a person has decided": """
        select s.job_id from s join unknown u on u.id = s.attempt_id or u.job_id = s.job_id and s.attempt_id is null
        where s.state in ('failed', 'cancelled')""",
    "a review is about an attempt that has started, or said so, or about an effect": """
        select r.job_id from brokerjobs.review r join s using (job_id) left join a on a.id = r.attempt_id
        where a.started_at is null and a.failure ->> 'class' is distinct from 'unsafe'
          and not exists (select from brokerjobs.effect_intent i where i.job_id = r.job_id and i.at <= r.opened_at)""",
    "an unknown effect that may not be repeated is in a running job or in review, unless a person gave it up": """
        select s.job_id from s join brokerjobs.effect x using (job_id)
        where x.outcome is null and not x.repeatable and s.state not in ('running', 'review')
          and not exists (select from brokerjobs.review r where r.job_id = s.job_id and r.decision = 'give_up')""",
    "the row knows whether an effect is unknown": """
        select s.job_id from s where s.state not in ('succeeded', 'cancelled') and s.unknown_effect <>
          exists (select from brokerjobs.effect x where x.job_id = s.job_id and brokerjobs.is_unknown(x))""",
    "a success hides no unknown effect": """
        select s.job_id from s join brokerjobs.effect x using (job_id)
        where s.state = 'succeeded' and brokerjobs.is_unknown(x)
          and coalesce(x.contradicted_at < s.finished_at, true)""",
    "an effect is tried again only once it is known not to have happened": """
        select s.job_id from s join brokerjobs.effect x using (job_id)
          join brokerjobs.effect y on (y.job_id, y.name, y.try) = (x.job_id, x.name, x.try + 1)
        where x.outcome is distinct from 'did_not_happen' or x.known_at > y.made_at""",
    # One that was narrowed since may have been permitted to several before.
    "an effect that may not be repeated is permitted to one attempt": """
        select s.job_id from s join brokerjobs.effect x using (job_id)
          join brokerjobs.effect_intent i on (i.job_id, i.name, i.try) = (x.job_id, x.name, x.try)
        where not x.repeatable and not exists (
          select from brokerjobs.event v where v.job_id = x.job_id and v.kind = 'effect_unknown')
        group by s.job_id, x.name, x.try having count(*) > 1""",
    "a review is open exactly while its job stands in review": """
        select s.job_id from s full join (
          select r.job_id from brokerjobs.review r join s using (job_id) where r.closed_at is null) o
            on o.job_id = s.job_id
        where (s.state = 'review') is distinct from (o.job_id is not null)""",
    "no attempt from before a replay is accepted after it": """
        select r.job_id from e r join e c on c.job_id = r.job_id and c.kind = 'claimed' and c.seq <= r.seq
          join e x on x.attempt_id = c.attempt_id and x.kind = 'succeeded' and x.seq > r.seq
        where r.kind = 'replayed'""",
    "exactly the failed jobs are among the dead": """
        select s.job_id from s left join brokerjobs.dead d on d.job_id = s.job_id
        where (s.state = 'failed') is distinct from (d.job_id is not null)""",
    "a queued job has a ring or a time": """
        select s.job_id from s where s.state = 'queued' and case when s.waiting = 'delivery'
          then s.rung_at is null and not exists (
            select from brokerjobs.outbox o where o.job_id = s.job_id and o.kind = 'doorbell')
          when s.waiting = 'pause' then not exists (select from brokerjobs.parked k where k.job_id = s.job_id)
          else s.wait_until is null end""",
    "a running attempt has a place of each resource that its job needs": """
        select s.job_id from s join brokerjobs.job j on j.id = s.job_id
        where s.state = 'running' and s.holds is distinct from (j.resources is not null)
        union all
        select s.job_id from s join brokerjobs.job j on j.id = s.job_id
          cross join lateral jsonb_array_elements(j.resources) n
        where s.state = 'running' and not exists (select from brokerjobs.resource r where r.namespace = j.namespace
          and r.name = n ->> 'name' and r.attempt_id = s.attempt_id and r.fencing_number = s.fencing_number)""",
    "no more attempts hold a resource than it has places": """
        select h.job_id from held h where h.closed_at is null and (select count(*) from brokerjobs.job_state o
            join brokerjobs.job k on k.id = o.job_id where o.state = 'running' and k.namespace = h.namespace
              and k.resources @> jsonb_build_array(jsonb_build_object('name', h.name))) > h.places""",
    "an exclusive resource is taken when its last holder's attempt is closed, not before": """
        select job_id from (select h.job_id, h.claimed_at < coalesce(lag(h.closed_at) over w, 'infinity')
            and lag(h.id) over w is not null as bad
          from held h where h.places = 1 window w as (partition by h.namespace, h.name order by h.seq)) x where bad""",
    "fencing numbers grow from holder to holder of a resource": """
        select job_id from (select h.job_id, h.fencing_number <= lag(h.fencing_number) over w as bad from held h
          window w as (partition by h.namespace, h.name order by h.seq)) x where bad""",
    "no result is accepted once another attempt has taken its resource": """
        select h.job_id from held h join e on e.attempt_id = h.id and e.kind = 'succeeded'
          join held o on o.namespace = h.namespace and o.name = h.name and o.places = 1
            and o.seq > h.seq and o.seq < e.seq
        where h.places = 1""",
    # Of jobs that need one exclusive resource: each first came when it was first told to wait since its last claim; it
    # let its turn pass if it was rung five seconds before, and has not come since.
    "nobody takes a resource before those who wait for it longer": """
        select h.job_id from held h
          join brokerjobs.job k on k.namespace = h.namespace and k.id <> h.job_id
            and jsonb_array_length(k.resources) = 1
            and k.resources @> jsonb_build_array(jsonb_build_object('name', h.name))
          cross join lateral (select max(e.seq) as seq from e where e.job_id = k.id and e.seq < h.seq
            and e.kind not in ('resource_busy', 'resource_free', 'became_due', 'handed_back', 'rung_again',
              'report_rejected')) l
          cross join lateral (select min(e.at) as at from e where e.job_id = k.id
            and e.kind = 'resource_busy' and e.seq > l.seq and e.seq < h.seq) since
          cross join lateral (select e.kind, e.at from e where e.job_id = k.id and e.seq > l.seq and e.seq < h.seq
            and e.kind in ('resource_busy', 'resource_free') order by e.seq desc limit 1) last
          cross join lateral (select min(e.at) as at from e where e.job_id = h.job_id
            and e.kind = 'resource_busy' and e.seq < h.seq and e.seq > coalesce(
              (select max(c.seq) from held c where c.job_id = h.job_id and c.seq < h.seq), 0)) own
        where h.places = 1 and (h.needed = 1 or own.at is null)
          and (since.at, k.id) < (coalesce(own.at, 'infinity'), h.job_id)
          and not (last.kind = 'resource_free' and last.at <= h.claimed_at - interval '5 seconds')""",
    "who waits for a resource stands in its line": """
        select s.job_id from s where s.waiting = 'resource'
          and not exists (select from brokerjobs.waiter w where w.job_id = s.job_id)""",
    "the last event says where the job stands": """
        select s.job_id from s left join lateral (
          select e.state from e where e.job_id = s.job_id order by e.seq desc limit 1) l on true
        where s.state is distinct from l.state""",
    "every recorded move is allowed": """
        select job_id from (select job_id, state, lag(state) over (partition by job_id order by seq) as before from e) x
        where before <> state and not before || '>' || state = any (%(moves)s)""",
    "a job that succeeded or was cancelled stays so": """
        select job_id from (select job_id, state, lag(state) over (partition by job_id order by seq) as before from e) x
        where before in ('succeeded', 'cancelled') and state <> before""",
}

_QUERY: Final = """
with s as materialized (select * from brokerjobs.job_state where %(jobs)s::uuid[] is null or job_id = any (%(jobs)s)),
  a as materialized (select * from brokerjobs.attempt where job_id in (select job_id from s)),
  e as materialized (select * from brokerjobs.event where job_id in (select job_id from s) and state is not null),
  unknown as materialized (select a.* from a join brokerjobs.job j on j.id = a.job_id
    where a.closed_at is not null and a.verdict is distinct from 'accepted' and not coalesce(a.late, false)
      and (a.failure ->> 'class' = 'unsafe' and (a.failure ->> 'type' is distinct from 'EffectUnknown' or exists (
          select from brokerjobs.effect x where x.job_id = a.job_id and brokerjobs.is_unknown(x)))
        or not j.repeatable and a.started_at is not null
        and not coalesce((a.failure ->> 'classified')::boolean, false))
      and not exists (select from brokerjobs.review r where r.attempt_id = a.id and r.decision is not null)),
  held as materialized (
    select a.*, e.seq, j.namespace, n ->> 'name' as name, (n ->> 'limit')::integer as places,
        jsonb_array_length(j.resources) as needed
      from a join brokerjobs.job j on j.id = a.job_id and j.resources is not null
        join e on e.attempt_id = a.id and e.kind = 'claimed' cross join lateral jsonb_array_elements(j.resources) n)
""" + " union all ".join(
    f"select '{rule.replace(chr(39), chr(39) * 2)}', x.job_id from ({query}) x" for rule, query in RULES.items()
)
_MOVES: Final = [f"{before}>{after}" for before, after in JOB_MOVES]


def violations(owner: psycopg.Connection, jobs: Sequence[UUID] | None = None) -> list[tuple[str, UUID]]:
    """The rules that do not hold, each with the job; of all jobs, or of these."""
    chosen = None if jobs is None else list(jobs)
    return owner.execute(_QUERY.encode(), {"jobs": chosen, "moves": _MOVES}).fetchall()
