-- The routes by which jobs of these types come now, as JSON: [{name, queue, lane, needs, types, declared}], by name. A worker
-- consumes those of them whose needs it meets. Left out are lanes that nobody has used, and routes that are retired.
create or replace function routes_of_types(p_namespace text, p_types text[]) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select coalesce(jsonb_agg(jsonb_build_object('name', r.name, 'queue', r.queue, 'lane', r.lane, 'needs', r.needs, 'types', y.types,
      'declared', r.declared_at is not null) order by r.name), '[]')
    from (select t.route, array_agg(t.type order by t.type) types from route_type t
      where t.namespace = p_namespace and t.type = any (p_types) group by t.route) y
    join route r on r.name = y.route
    where r.wanted and r.retired_at is null
$$;
