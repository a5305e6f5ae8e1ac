-- Records that routes now exist at the broker.
create or replace function routes_declared(p_names text[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  update route r set declared_at = clock() where r.name = any (p_names) and r.declared_at is null
$$;
