-- Routes that are wanted and not yet declared at the broker, or wanted again after they were retired: their queue may be gone.
create or replace function routes_wanted() returns table (name text, namespace text)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select r.name, r.namespace from route r where r.wanted and (r.declared_at is null or r.retired_at is not null) order by r.name
$$;
