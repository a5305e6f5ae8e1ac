-- Why one more route of a namespace may not be wanted, in words; null if it may, or is wanted already. Each is a queue at the
-- broker, and a subscription of every worker that serves it.
create or replace function too_many_routes(p_namespace text, p_name text) returns text language sql stable as $$
  select format('its route %s would be one more than the %s that namespace %s may have; give job types that need the same the same queue'
      ' and needs, use fewer lanes, or wait until routes without jobs are retired, a day after their last one', p_name, x.there, p_namespace)
    from (select count(*) as there from route r where r.namespace = p_namespace and r.wanted and r.retired_at is null) x
    where x.there >= 200 and not exists (select from route r where r.name = p_name and r.wanted)
$$;
