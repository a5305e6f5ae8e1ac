-- Queues with their routes, as JSON, of a namespace or of any, or one by name: who paused it, how many jobs wait and run, who
-- serves it, and what is not placeable. Counts go to 10 000 at most. One by name has its last twenty pauses, too.
create or replace function queues(p_namespace text, p_queue text) returns table (queue jsonb)
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  t timestamptz := clock();
  v_served jsonb;
  v_waiting jsonb;
  v_running jsonb;
begin
  select coalesce(jsonb_object_agg(x.route, x.workers), '{}') into v_served from (
    select u.route, count(*) as workers from live_workers(t) w, unnest(w.routes) u (route) group by u.route) x;
  select coalesce(jsonb_object_agg(x.route, x.jobs), '{}') into v_waiting from (
    select j.route, count(*) as jobs from (
        (select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit 10000)
        union all
        (select s.job_id from job_state s where s.state = 'queued' and s.wait_until is not null order by s.wait_until limit 10000)
        union all
        (select distinct w.job_id from waiter w join job_state s on s.job_id = w.job_id
          where s.state = 'queued' and s.waiting = 'resource' and s.wait_until is null limit 10000)
        union all
        (select k.job_id from parked k limit 10000)
        union all
        (select k.job_id from parked_queue k limit 10000)) x
      join job j on j.id = x.job_id group by j.route) x;
  select coalesce(jsonb_object_agg(x.route, x.jobs), '{}') into v_running from (
    select j.route, count(*) as jobs from (select s.job_id from job_state s where s.state = 'running' order by s.job_id limit 10000) x
      join job j on j.id = x.job_id group by j.route) x;
  return query
    select jsonb_build_object('namespace', r.namespace, 'queue', r.queue, 'paused', queue_pause_of(r.namespace, r.queue),
        'waiting', coalesce(sum((v_waiting ->> r.name)::bigint), 0), 'running', coalesce(sum((v_running ->> r.name)::bigint), 0),
        'routes', jsonb_agg(jsonb_build_object('name', r.name, 'lane', r.lane, 'needs', r.needs, 'declared', r.declared_at is not null,
          'trouble', r.trouble, 'waiting', coalesce((v_waiting ->> r.name)::bigint, 0), 'running', coalesce((v_running ->> r.name)::bigint, 0),
          'workers', coalesce((v_served ->> r.name)::integer, 0),
          'types', (select coalesce(jsonb_agg(y.type order by y.type), '[]') from route_type y where y.route = r.name),
          'unplaceable', (select coalesce(jsonb_agg(jsonb_build_object('type', y.type, 'since', rfc3339(y.unplaceable_since), 'report', y.report)
              order by y.type), '[]') from route_type y where y.route = r.name and y.unplaceable_since is not null))
          order by r.needs_hash nulls first, r.lane = 'low', r.lane = 'normal'))
      || case when p_queue is null then '{}' else jsonb_build_object('pauses', (
          select coalesce(jsonb_agg(to_jsonb(x) order by x.paused_at desc), '[]') from (
            select rfc3339(p.paused_at) as paused_at, p.paused_by, p.login, p.reason, rfc3339(p.until) as until, rfc3339(p.resumed_at) as resumed_at,
                p.resumed_by, p.resumed_why
              from queue_pause p where p.namespace = r.namespace and p.queue = r.queue order by p.paused_at desc limit 20) x)) end
      from route r
      where (r.wanted or v_waiting ? r.name or v_running ? r.name)
        and (p_namespace is null or r.namespace = p_namespace) and (p_queue is null or r.queue = p_queue)
      group by r.namespace, r.queue order by r.namespace, r.queue;
end $$;
