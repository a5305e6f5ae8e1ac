-- Has routes declared again that workers do not find at their broker, which lost them: the service `routes` makes them.
-- Probes that were on their way through such a queue are gone with it.
create or replace function declare_missing_routes(t timestamptz) returns void
language sql volatile as $$
  with said as (
    select x.name, max(w.heartbeat_at) as at
      from live_workers(t) w, jsonb_array_elements_text(case jsonb_typeof(w.missing) when 'array' then w.missing else '[]' end) x (name)
      group by x.name
  ), gone as (
    delete from probe p using said s where p.route = s.name and p.returned_at is null and p.made_at < s.at
  )
  update route r set declared_at = null from said s where r.name = s.name and r.declared_at < s.at
$$;
