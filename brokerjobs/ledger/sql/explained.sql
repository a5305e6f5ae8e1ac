-- Records why living workers cannot run jobs of a type that come by a route, null where all can; whoever asks leaves out what
-- has not changed. If none can that stays, since when that is so stays as it is while it is so.
create or replace function explained(p_routes text[], p_types text[], p_reports jsonb[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  update route_type y set report = g.report,
      unplaceable_since = case when g.report ->> 'because' is not null then coalesce(y.unplaceable_since, clock()) end
    from unnest(p_routes, p_types, p_reports) g (route, type, report)
    where (y.route, y.type) = (g.route, g.type)
$$;
