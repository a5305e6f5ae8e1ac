-- A heartbeat as `beat`, answered also with the types of the namespace that are paused: who learns that all of a route's
-- types are consumes it no more.
create or replace function sign_of_life(
  p_id uuid, p_role text, p_namespace text, p_name text, p_host text, p_pid integer, p_types text[], p_routes text[],
  p_state text, p_observed_at timestamptz, p_detail jsonb)
returns table (service text, holder uuid, seconds_left double precision, at timestamptz, paused text[])
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  v_paused text[] := array(
    select p.type from pause p where p.namespace = p_namespace and p.resumed_at is null and p.type = any (p_types) order by p.type);
begin
  return query select b.service, b.holder, b.seconds_left, b.at, v_paused
    from beat(p_id, p_role, p_namespace, p_name, p_host, p_pid, p_types, p_routes, p_state, p_observed_at, p_detail) b;
end $$;
