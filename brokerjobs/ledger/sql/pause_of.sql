-- Who paused a job type, why and since when; null if it is not paused.
create or replace function pause_of(p_namespace text, p_type text) returns jsonb
language sql stable as $$
  select jsonb_build_object('by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at))
    from pause p where p.namespace = p_namespace and p.type = p_type and p.resumed_at is null
$$;
