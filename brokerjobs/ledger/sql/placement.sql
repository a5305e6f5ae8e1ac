-- What the explainer looks at: the living workers, and every wanted route with the job types that come by it, and what was
-- said of each last. A route of needs that no worker may meet has no more jobs than another: no job is looked at.
create or replace function placement() returns table (workers jsonb, routes jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off as $$
  select workers_to_place(null, clock()),
      (select coalesce(jsonb_agg(jsonb_build_object('route', r.name, 'namespace', r.namespace, 'needs', r.needs, 'type', y.type,
          'report', y.report)), '[]')
        from route r join route_type y on y.route = r.name where r.wanted)
$$;
