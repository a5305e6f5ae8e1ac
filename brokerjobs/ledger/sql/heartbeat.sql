-- Registers a process and keeps it alive in the list; answers who leads each service, with the seconds left.
create or replace function heartbeat(
  p_id uuid, p_role text, p_namespace text, p_name text, p_host text, p_pid integer, p_types text[], p_routes text[],
  p_state text, p_observed_at timestamptz, p_detail jsonb)
returns table (service text, holder uuid, seconds_left double precision)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  t timestamptz := clock();
begin
  insert into worker (id, namespace, name, role, host, pid, login, types, routes, started_at, heartbeat_at, observed_at, state, detail)
    values (p_id, p_namespace, p_name, p_role, p_host, p_pid, session_user, p_types, p_routes, t, t, p_observed_at, p_state, p_detail)
    on conflict (id) do update set heartbeat_at = t, observed_at = p_observed_at, state = p_state, detail = p_detail,
      types = p_types, routes = p_routes;
  return query select s.name, s.holder, date_part('epoch', s.until - t) from service s;
end $$;
