-- What `brokerjobs status` looks at: how many jobs run and wait, and what is not as it should be, of one namespace or of
-- all. It judges nothing and changes nothing. Every part is bounded: at most 10 000 rows are looked at by an index (100 000 for
-- one namespace, whose rows are found among the others), and a count of 10 000 says "at least"; no part reads all jobs.
-- Processes that live are taken as in live_workers.
create or replace function overview(p_namespace text, p_waits_too_long interval) returns jsonb
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  t timestamptz := clock();
  v_look integer := case when p_namespace is null then 10000 else 100000 end;
  v_running jsonb;
  v_queued bigint;
  v_deadline jsonb;
  v_reviews jsonb;
  v_dead jsonb;
  v_late jsonb;
  v_quarantined jsonb;
  v_artifacts jsonb;
  v_workers jsonb;
  v_unplaceable jsonb := '[]';
begin
  select jsonb_build_object('jobs', count(*),
      'expired', count(*) filter (where x.lease_until < t - interval '2 seconds'),
      'oldest_expired_seconds', date_part('epoch', t - min(x.lease_until) filter (where x.lease_until < t - interval '2 seconds')),
      'example', (array_agg(x.job_id order by x.lease_until))[1])
    into v_running
    from (select s.job_id, s.lease_until from job_state s where s.state = 'running' order by s.job_id limit v_look) x
    where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace;
  select count(*) into v_queued from (
    (select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit v_look)
    union all
    (select s.job_id from job_state s where s.state = 'queued' and s.wait_until is not null order by s.wait_until limit v_look)) x
    where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace;
  v_queued := v_queued + (select count(*) from (
      (select k.job_id from parked k where p_namespace is null or k.namespace = p_namespace limit 10000)
      union
      (select k.job_id from parked_queue k where p_namespace is null or k.namespace = p_namespace limit 10000)) x
    join job_state s on s.job_id = x.job_id where s.state = 'queued' and s.waiting = 'pause');

  select jsonb_build_object('jobs', count(*), 'oldest_seconds', date_part('epoch', t - min(x.deadline)), 'example', (array_agg(x.job_id order by x.deadline))[1])
    into v_deadline
    from (select s.job_id, s.deadline from job_state s
      where s.deadline is not null and s.finished_at is null and not s.deadline_noted and s.deadline < t - interval '2 seconds'
      order by s.deadline limit v_look) x
    where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace;
  select jsonb_build_object('open', count(*), 'oldest_seconds', date_part('epoch', t - min(x.opened_at)), 'example', (array_agg(x.job_id order by x.opened_at))[1])
    into v_reviews
    from (select v.job_id, v.opened_at from review v
      where v.closed_at is null order by v.job_id limit v_look) x
    where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace;
  -- Their ids are made from the time at which they open; those of jobs that retention has removed are gone.
  select v_reviews || jsonb_build_object('opened_in_last_hour', count(*) filter (where x.opened_at > t - interval '1 hour'),
      'opened_in_last_day', count(*))
    into v_reviews
    from (select v.job_id, v.opened_at from review v
      where v.id >= first_uuid7(t - interval '1 day') and v.opened_at > t - interval '1 day' order by v.id desc limit v_look) x
    where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace;

  with failed as materialized (
    select d.group_id, d.namespace, d.type, d.message, d.error_type, x.job_id from (
        select s.job_id from job_state s
          where s.state in ('failed', 'cancelled') and s.finished_at > t - interval '1 day' order by s.finished_at desc limit v_look) x
      join dead d on d.job_id = x.job_id
      where d.discarded_at is null and (p_namespace is null or d.namespace = p_namespace)
  ), largest as (
    select f.group_id, count(*) as jobs, min(f.namespace || '/' || f.type) as type, min(f.error_type) as error_type, min(f.message) as message
      from failed f group by f.group_id order by count(*) desc, f.group_id limit 1
  )
  select jsonb_build_object('jobs', (select count(*) from failed), 'groups', (select count(distinct f.group_id) from failed f),
      'largest', (select to_jsonb(l) from largest l)) into v_dead;

  -- By route: those whose doorbell was published, or who were submitted, longer ago than the bound.
  with late as materialized (
    select j.route, j.namespace, x.job_id, x.rung_at, coalesce(x.rung_at, j.submitted_at) as since, coalesce(pause_of(j.namespace, j.type), (select queue_pause_of(j.namespace, r.queue) from route r where r.name = j.route)) is not null
        or exists (select from route_type u where (u.route, u.type) = (j.route, j.type) and u.unplaceable_since is not null) as told
      from (select s.job_id, s.rung_at from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit v_look) x
      join job j on j.id = x.job_id
      where coalesce(x.rung_at, j.submitted_at) < t - p_waits_too_long and (p_namespace is null or j.namespace = p_namespace)
  ), living as materialized (
    select w.* from live_workers(t) w
  )
  select coalesce(jsonb_agg(g.item order by g.jobs desc), '[]') into v_late from (
    select count(*) as jobs, jsonb_build_object('route', l.route, 'jobs', count(*), 'oldest_seconds', date_part('epoch', t - min(l.since)),
        'example', (array_agg(l.job_id order by l.since))[1], 'never_rung', count(*) filter (where l.rung_at is null),
        'workers', (select count(*) from living w where l.route = any (w.routes)),
        'consuming', (select count(*) from living w where w.consuming ? l.route),
        'declared', (select r.declared_at is not null from route r where r.name = l.route),
        'trouble', (select r.trouble from route r where r.name = l.route)) as item
      from late l where not l.told group by l.route order by count(*) desc limit 20) g;

  -- By route and type: those that no living worker can run, while there are any.
  if exists (select from route_type u where u.unplaceable_since is not null) then
    select coalesce(jsonb_agg(g.item order by g.jobs desc), '[]') into v_unplaceable from (
      select count(*) as jobs, jsonb_build_object('type', u.namespace || '/' || u.type, 'route', u.route, 'jobs', count(*),
          'seconds', date_part('epoch', t - u.unplaceable_since), 'text', u.report ->> 'text', 'example', (array_agg(j.id order by j.id))[1]) as item
        from (select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit v_look) x
        join job j on j.id = x.job_id join route_type u on (u.route, u.type) = (j.route, j.type) and u.unplaceable_since is not null
        where p_namespace is null or j.namespace = p_namespace
        group by u.namespace, u.type, u.route, u.unplaceable_since, u.report order by count(*) desc limit 20) g;
  end if;

  select jsonb_build_object('messages', coalesce(sum(x.messages), 0), 'reason', (array_agg(x.reason order by x.messages desc))[1],
      'last_seconds', date_part('epoch', t - max(x.last)))
    into v_quarantined
    from (select q.reason, count(*) as messages, max(q.at) as last
      from (select y.reason, y.at, y.route from quarantine y order by y.id desc limit 10000) q
      where q.at > t - interval '1 day' and (p_namespace is null or starts_with(q.route, p_namespace || '.q.')) group by q.reason) x;

  -- Staged copies that are not what was recorded, until a day after they are gone; those that nobody fetched in time, of the last
  -- day; objects without a row.
  select jsonb_build_object(
      'hash_mismatch', count(*) filter (where x.state = 'hash_mismatch'),
      'expired_unacknowledged', count(*) filter (where x.state = 'expired_unacknowledged' and x.expired_at > t - interval '1 day'),
      'example', (array_agg(x.id order by x.state desc, x.id desc))[1],
      'orphans', (select count(*) from (select from artifact_orphan o where o.removed_at is null limit 10000) o))
    into v_artifacts
    from ((select a.id, a.state, a.expired_at, a.namespace from artifact a
        where a.state = 'hash_mismatch' and coalesce(a.removed_at > t - interval '1 day', true) order by a.id desc limit v_look)
      union all
      (select a.id, a.state, a.expired_at, a.namespace from artifact a
        where a.state = 'expired_unacknowledged' order by a.id desc limit v_look)) x
    where (x.state = 'hash_mismatch' or x.expired_at > t - interval '1 day') and (p_namespace is null or x.namespace = p_namespace);

  select jsonb_build_object(
      'online', count(*) filter (where y.alive and w.state = 'online' and w.role = 'worker'),
      'draining', count(*) filter (where y.alive and w.state = 'draining' and w.role = 'worker'),
      'coordinators', count(*) filter (where y.alive and w.role = 'coordinator'),
      'gone', count(*) filter (where not y.alive), 'gone_names', (array_agg(w.name order by w.heartbeat_at desc) filter (where not y.alive))[1:3],
      'gone_seconds', date_part('epoch', t - max(w.heartbeat_at) filter (where not y.alive)),
      'draining_names', (array_agg(w.name order by w.name) filter (where y.alive and w.state = 'draining' and w.role = 'worker'))[1:3],
      'leaked', coalesce(sum(number_in(w.detail, 'leaked_threads')) filter (where y.alive), 0),
      'leaked_names', (array_agg(w.name order by w.name) filter (where y.alive and number_in(w.detail, 'leaked_threads') > 0))[1:3])
    into v_workers
    from worker w cross join lateral (
      select w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10))) as alive) y
    where w.state <> 'stopped' and w.heartbeat_at > t - interval '1 day'
      and (p_namespace is null or w.namespace is null or w.namespace = p_namespace);

  return jsonb_build_object('clock', rfc3339(t), 'running', v_running, 'queued', v_queued, 'past_deadline', v_deadline,
    'reviews', v_reviews, 'dead', v_dead, 'waiting', v_late, 'unplaceable', v_unplaceable, 'quarantined', v_quarantined, 'artifacts', v_artifacts,
    'stores', artifact_stores(t), 'workers', v_workers,
    'services', (select coalesce(jsonb_agg(jsonb_build_object('name', x.name, 'holder', x.holder_name,
        'seconds_left', date_part('epoch', x.until - t)) order by x.name), '[]') from service x),
    'storms', (select coalesce(jsonb_agg(jsonb_build_object('route', b.route, 'first_attempts', b.first_attempts, 'retries', b.retries,
        'stretch', b.stretch) order by b.stretch desc, b.retries desc), '[]') from retry_budget b
      where b.stretch > 1 and b.until > t and (p_namespace is null or starts_with(b.route, p_namespace || '.q.'))),
    'paused', (select coalesce(jsonb_agg(jsonb_build_object('namespace', p.namespace, 'type', p.type, 'by', p.paused_by, 'reason', p.reason,
        'seconds', date_part('epoch', t - p.paused_at),
        'parked', (select count(*) from (select from parked k
          join job_state s on s.job_id = k.job_id and s.state = 'queued' and s.waiting = 'pause'
          where k.namespace = p.namespace and k.type = p.type limit 10000) x))
        order by p.paused_at), '[]') from pause p where p.resumed_at is null and (p_namespace is null or p.namespace = p_namespace)),
    'paused_queues', (select coalesce(jsonb_agg(queue_pause_of(p.namespace, p.queue) || jsonb_build_object('namespace', p.namespace,
        'seconds', date_part('epoch', t - p.paused_at),
        'parked', (select count(*) from (select from parked_queue k where k.namespace = p.namespace and k.queue = p.queue limit 10000) x))
        order by p.paused_at), '[]') from queue_pause p
      where p.resumed_at is null and coalesce(p.until > t, true) and (p_namespace is null or p.namespace = p_namespace)),
    'outbox', (select jsonb_build_object('messages', count(*), 'oldest_seconds', date_part('epoch', t - min(x.made_at)))
      from (select o.job_id, o.made_at from outbox o where o.hold_until <= t order by o.xid limit v_look) x
      where p_namespace is null or (select j.namespace from job j where j.id = x.job_id) = p_namespace));
end $$;
