-- The name of a route, which is its RabbitMQ queue, as broker/names.py makes it.
create or replace function route_name(p_namespace text, p_queue text, p_needs_hash text, p_lane text) returns text
language sql immutable as $$
  select p_namespace || '.q.' || p_queue || coalesce('.' || p_needs_hash, '') || case when p_lane = 'normal' then '' else ':' || p_lane end
$$;
