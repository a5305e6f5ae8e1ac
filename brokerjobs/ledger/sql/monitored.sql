-- What the elected monitor tells of the ledger: one row a number, named as in the catalogue of metrics, labels in its order; it
-- judges nothing and changes nothing. Every part looks at p_look rows at most, the oldest, by an index, so that a count of
-- p_look says "at least"; no part reads what has ended. A queue of which nothing was found is told as empty only if
-- everything was looked at. With p_look 0 there are no rows. Processes that live are taken as in live_workers.
create or replace function monitored(p_look integer, p_objective double precision)
returns table (metric text, labels text[], value double precision)
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  t timestamptz := clock();
begin
  if p_look <= 0 then
    return;
  end if;
  return query
  with looked as materialized (
    (select s.job_id, 'running' as state, '' as waiting, s.lease_until, null::uuid as last_attempt
      from job_state s where s.state = 'running' order by s.job_id limit p_look)
    union all
    (select s.job_id, 'queued', 'delivery', null, case when s.number > 0 then s.attempt_id end
      from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit p_look)
    union all
    (select s.job_id, 'queued', s.waiting, null, null
      from job_state s where s.state = 'queued' and s.wait_until is not null and s.waiting <> 'delivery' order by s.wait_until limit p_look)
    union all
    (select s.job_id, 'queued', s.waiting, null, null
      from ((select k.job_id from parked k limit p_look) union (select k.job_id from parked_queue k limit p_look)
        union (select w.job_id from waiter w limit p_look)) x
      join job_state s on s.job_id = x.job_id
      where s.state = 'queued' and s.waiting in ('pause', 'resource') and s.wait_until is null)
    union all
    (select v.job_id, 'review', '', null, null from review v where v.closed_at is null order by v.job_id limit p_look)
  ), known as materialized (
    select l.*, j.namespace, j.type, r.queue, j.submitted_at, j.not_before, j.route from looked l
      join job j on j.id = l.job_id join route r on r.name = j.route
  ), queued as materialized (
    -- When a job could first be claimed: after its last attempt when its retry was due, else once submitted and not too early.
    select k.namespace, k.queue, k.type, k.route, count(*) as jobs,
        min(coalesce((select coalesce(a.answer_until, a.closed_at) from attempt a where a.id = k.last_attempt),
          greatest(k.submitted_at, k.not_before))) as since
      from known k where k.waiting = 'delivery' group by k.namespace, k.queue, k.type, k.route
  ), claimable as materialized (
    select q.namespace, q.queue, min(q.since) as since from queued q
      where pause_of(q.namespace, q.type) is null and queue_pause_of(q.namespace, q.queue) is null group by q.namespace, q.queue
  ), all_queues as materialized (
    select distinct r.namespace, r.queue from route r order by r.namespace, r.queue limit 500
  ), namespaces as materialized (
    select distinct y.namespace from job_type y order by y.namespace limit 500
  ), dead_of as materialized (
    select n.namespace, count(x.failed_at) as jobs, min(x.failed_at) as since from namespaces n
      left join lateral (select d.failed_at from dead d where d.namespace = n.namespace and d.discarded_at is null limit p_look) x on true
      group by n.namespace
  ), review_of as materialized (
    select k.namespace, count(*) as reviews, min(v.opened_at) as since from known k
      join review v on v.job_id = k.job_id and v.closed_at is null where k.state = 'review' group by k.namespace
  ), living as materialized (
    select w.namespace, case when y.alive then w.state else 'lost' end as state from worker w cross join lateral (
      select w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10))) as alive) y
    where w.role = 'worker' and w.state <> 'stopped' and w.heartbeat_at > t - interval '1 day' limit p_look
  ), workers_of as materialized (
    select w.namespace, w.state, count(*) as workers from living w group by w.namespace, w.state
  ), overdue_of as materialized (
    select k.namespace, count(*) as attempts from known k where k.lease_until < t group by k.namespace
  ), owed as materialized (
    select o.made_at from outbox o order by o.xid limit p_look
  )
  select 'brokerjobs.job.count', array[k.namespace, k.queue, k.state, k.waiting], count(*)::double precision
    from known k group by k.namespace, k.queue, k.state, k.waiting
  union all
  select 'brokerjobs.queue.oldest_job.age', array[u.namespace, u.queue], coalesce(date_part('epoch', t - c.since), 0)
    from all_queues u left join claimable c on (c.namespace, c.queue) = (u.namespace, u.queue)
    where c.since is not null or (select count(*) from looked l where l.waiting = 'delivery') < p_look
  union all
  select 'brokerjobs.queue.latency.objective', array[u.namespace, u.queue], p_objective from all_queues u
  union all
  select 'brokerjobs.job.unplaceable', array[q.namespace, q.queue, u.report ->> 'because'], sum(q.jobs)::double precision
    from queued q join route_type u on (u.route, u.type) = (q.route, q.type)
    where u.unplaceable_since is not null group by q.namespace, q.queue, u.report ->> 'because'
  union all
  select 'brokerjobs.review.pending', array[n.namespace], coalesce(v.reviews, 0)::double precision
    from namespaces n left join review_of v on v.namespace = n.namespace
  union all
  select 'brokerjobs.review.oldest_age', array[v.namespace], date_part('epoch', t - v.since) from review_of v
  union all
  select 'brokerjobs.dead_letter.count', array[d.namespace], d.jobs::double precision from dead_of d
  union all
  select 'brokerjobs.dead_letter.oldest_age', array[d.namespace], date_part('epoch', t - d.since) from dead_of d where d.jobs > 0
  union all
  select 'brokerjobs.attempt.overdue', array[n.namespace], coalesce(o.attempts, 0)::double precision
    from namespaces n left join overdue_of o on o.namespace = n.namespace
  union all
  select 'brokerjobs.worker.count', array[n.namespace, z.state], coalesce(w.workers, 0)::double precision
    from namespaces n cross join unnest(array['online', 'draining', 'lost']) z (state)
    left join workers_of w on (w.namespace, w.state) = (n.namespace, z.state)
  union all
  select 'brokerjobs.outbox.pending', '{}', count(*)::double precision from owed
  union all
  select 'brokerjobs.outbox.oldest_age', '{}', coalesce(date_part('epoch', t - min(o.made_at)), 0) from owed o
  union all
  select 'brokerjobs.service.last_success_age', array[x.name], date_part('epoch', t - x.ticked_at) from service x
  union all
  select 'brokerjobs.schema.version', '{}', m.schema_version::double precision from meta m;
end $$;
