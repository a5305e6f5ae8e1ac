-- How many places of a resource are held, looked at without locks: a hint for rings and reports.
create or replace function held_places(p_namespace text, p_name text) returns integer language sql stable as $$
  select count(*)::integer from resource r
    where r.namespace = p_namespace and r.name = p_name
      and exists (select from attempt a where a.id = r.attempt_id and a.closed_at is null)
$$;
