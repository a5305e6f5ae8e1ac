-- Routes that are wanted and not yet declared at the broker.
create or replace function routes_wanted() returns table (name text, namespace text)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select r.name, r.namespace from route r where r.declared_at is null and r.wanted and r.retired_at is null order by r.name
$$;
