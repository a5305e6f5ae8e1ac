-- A worker's heartbeat: as `beat`, answered in one row also with the types of its that are paused, the paused queues of its
-- namespace, and the routes by which its types come (routes_of_types), so that it learns of changes within one heartbeat.
create or replace function worker_beat(
  p_id uuid, p_role text, p_namespace text, p_name text, p_host text, p_pid integer, p_types text[], p_routes text[],
  p_state text, p_observed_at timestamptz, p_detail jsonb)
returns table (at timestamptz, leaders jsonb, paused text[], paused_queues text[], routes jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
begin
  select min(b.at), coalesce(jsonb_agg(jsonb_build_object('service', b.service, 'holder', b.holder, 'seconds_left', b.seconds_left)
      order by b.service) filter (where b.service is not null), '[]')
    into at, leaders
    from beat(p_id, p_role, p_namespace, p_name, p_host, p_pid, p_types, p_routes, p_state, p_observed_at, p_detail) b;
  paused := array(select p.type from pause p
    where p.namespace = p_namespace and p.resumed_at is null and p.type = any (p_types) order by p.type);
  paused_queues := array(select p.queue from queue_pause p
    where p.namespace = p_namespace and p.resumed_at is null and (p.until is null or p.until > at) order by p.queue);
  routes := routes_of_types(p_namespace, p_types);
  return next;
end $$;
