-- The routes that may be probed now: a worker consumes it, every worker of it knows probes, and none is under way. One
-- that has not come back after p_lost is presumed lost; it still counts if it comes back after all.
create or replace function routes_to_probe(t timestamptz, p_lost interval) returns setof text
language sql stable as $$
  with living as materialized (select w.* from live_workers(t) w)
  select r.name from route r
    where exists (select from living w where r.name = any (w.routes) and w.consuming ? r.name)
      and not exists (select from living w where r.name = any (w.routes) and not w.probed)
      and not exists (select from probe p where p.route = r.name and p.settled_at is null
        and (p.returned_at is not null or p.made_at > t - p_lost))
$$;
