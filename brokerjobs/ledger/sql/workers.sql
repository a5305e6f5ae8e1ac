-- Processes that run jobs, as JSON, of a namespace or of any: those that live, and those that were lost or stopped within
-- p_since. Nothing removes one but retention.
create or replace function workers(p_namespace text, p_since interval) returns table (worker jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off as $$
  select jsonb_build_object('id', w.id, 'name', w.name, 'namespace', w.namespace, 'host', w.host, 'pid', w.pid, 'login', w.login,
      'state', case when w.state = 'stopped' then 'stopped' when x.alive then w.state else 'lost' end,
      'started_at', rfc3339(w.started_at), 'heartbeat_at', rfc3339(w.heartbeat_at), 'heartbeat_age_seconds', date_part('epoch', x.t - w.heartbeat_at),
      'clock_offset_seconds', date_part('epoch', w.observed_at - w.heartbeat_at),
      'types', to_jsonb(w.types), 'routes', to_jsonb(w.routes), 'consuming', coalesce(w.detail -> 'consuming', '[]'),
      'capabilities', coalesce(w.detail -> 'capabilities', '{}'), 'slots', w.detail -> 'slots', 'running', coalesce(w.detail -> 'running', '0'),
      'unclaimed', coalesce(w.detail -> 'unclaimed', '0'), 'leaked', coalesce(w.detail -> 'leaked_threads', '0'))
    from worker w cross join lateral (select clock() as t, w.heartbeat_at > clock() - make_interval(secs =>
        greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10))) as alive) x
    where w.role = 'worker' and (p_namespace is null or w.namespace = p_namespace)
      and (w.state <> 'stopped' and x.alive or w.heartbeat_at > x.t - p_since)
    order by w.namespace, w.name, w.started_at
$$;
