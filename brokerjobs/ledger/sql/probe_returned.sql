-- Records that a probe came back to a worker; false if this ledger did not send such a one through this route.
create or replace function probe_returned(p_worker_name text, p_route text, p_ticket uuid) returns boolean
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
begin
  update probe p set returned_at = clock(), returned_by = left(p_worker_name, 300)
    where p.ticket = p_ticket and p.route = p_route and p.returned_at is null;
  return found or exists (select from probe p where p.ticket = p_ticket and p.route = p_route);
end $$;
