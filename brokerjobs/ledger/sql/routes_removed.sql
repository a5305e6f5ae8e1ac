-- Records that the queues of retired routes are deleted.
create or replace function routes_removed(p_names text[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  update route r set declared_at = null where r.name = any (p_names) and r.retired_at is not null
$$;
