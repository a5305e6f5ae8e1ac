-- Is there another living worker that serves the route, has a handler for the type, and meets these needs? Then a job that this
-- one refused is rung again soon: the broker offers it to its consumers in turn.
create or replace function another_meets(p_worker uuid, j job, p_needs jsonb, t timestamptz) returns boolean
language sql stable as $$
  select exists (
    select from worker w
      where w.id <> p_worker and w.role = 'worker' and w.state = 'online' and w.namespace = j.namespace
        and j.type = any (w.types) and j.route = any (w.routes)
        and w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10)))
        and unmet_needs(p_needs, coalesce(w.detail -> 'capabilities', '{}')) = '[]')
$$;
