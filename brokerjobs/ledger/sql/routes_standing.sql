-- Whether routes are declared at the broker, and if not what is known to stand in the way.
create or replace function routes_standing(p_names text[]) returns table (name text, namespace text, declared boolean, trouble jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select r.name, r.namespace, r.declared_at is not null, case when r.declared_at is null then r.trouble end
    from route r where r.name = any (p_names) order by r.name
$$;
