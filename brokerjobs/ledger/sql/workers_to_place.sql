-- The workers that live, as rules/placement.py takes them. A worker of before, which tells no capabilities, serves the routes
-- that it says and no other.
create or replace function workers_to_place(p_namespace text, t timestamptz) returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name, 'namespace', w.namespace, 'types', to_jsonb(w.types), 'routes', to_jsonb(w.routes),
      'state', w.state, 'capabilities', w.detail -> 'capabilities', 'free', w.detail -> 'free') order by w.name, w.id), '[]')
    from worker w
    where w.role = 'worker' and w.state <> 'stopped' and (p_namespace is null or w.namespace = p_namespace)
      and w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10)))
$$;
