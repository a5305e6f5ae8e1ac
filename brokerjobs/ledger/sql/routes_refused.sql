-- Records why routes could not be declared, for workers to be told when they start. One that is declared has no trouble.
create or replace function routes_refused(p_names text[], p_troubles jsonb[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  update route r set trouble = g.trouble from unnest(p_names, p_troubles) g (name, trouble)
    where r.name = g.name and r.declared_at is null and r.trouble is distinct from g.trouble
$$;
