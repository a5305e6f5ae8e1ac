-- A heartbeat, answered also with the ledger's clock, so that a process can tell how far its own is off. A row a service;
-- one without a service if there is none yet.
create or replace function beat(
  p_id uuid, p_role text, p_namespace text, p_name text, p_host text, p_pid integer, p_types text[], p_routes text[],
  p_state text, p_observed_at timestamptz, p_detail jsonb)
returns table (service text, holder uuid, seconds_left double precision, at timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  t timestamptz := clock();
begin
  return query select h.service, h.holder, h.seconds_left, t from (select) one left join
    heartbeat(p_id, p_role, p_namespace, p_name, p_host, p_pid, p_types, p_routes, p_state, p_observed_at, p_detail) h on true;
end $$;
