-- Registered job types with their terms, as JSON: all of a namespace or of any, or one by name. `parked` counts
-- jobs that still wait for the resume (a row of `parked` may outlive that), to 10 000 at most. One by name has its last twenty pauses, too.
create or replace function types(p_namespace text, p_type text) returns table (type jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select jsonb_build_object(
      'namespace', y.namespace, 'name', y.name, 'queue', y.queue, 'route', route_name(y.namespace, y.queue, y.needs_hash, 'normal'),
      'repeatable', y.repeatable, 'lease_seconds', extract(epoch from y.lease), 'time_limit_seconds', extract(epoch from y.time_limit),
      'retry', jsonb_build_object('attempts', y.retry_attempts, 'elapsed_seconds', extract(epoch from y.retry_elapsed),
        'first_delay_seconds', extract(epoch from y.retry_first_delay), 'factor', y.retry_factor,
        'max_delay_seconds', extract(epoch from y.retry_max_delay)),
      'payload_limit', y.payload_limit, 'result_limit', y.result_limit,
      'registered_at', rfc3339(y.registered_at), 'registered_by', y.registered_by,
      'paused', pause_of(y.namespace, y.name),
      'parked', (select count(*) from (select from parked k
        join job_state s on s.job_id = k.job_id and s.state = 'queued' and s.waiting = 'pause'
        where k.namespace = y.namespace and k.type = y.name limit 10000) x))
    || case when p_type is null then '{}' else jsonb_build_object(
      'pauses', (select coalesce(jsonb_agg(h.pause), '[]') from (
        select jsonb_build_object('paused_at', rfc3339(p.paused_at), 'paused_by', p.paused_by, 'login', p.login, 'reason', p.reason,
            'resumed_at', rfc3339(p.resumed_at), 'resumed_by', p.resumed_by, 'resumed_why', p.resumed_why) as pause
          from pause p where p.namespace = y.namespace and p.type = y.name order by p.paused_at desc limit 20) h)) end
    from job_type y
    where (p_namespace is null or y.namespace = p_namespace) and (p_type is null or y.name = p_type)
    order by y.namespace, y.name limit 10000
$$;
