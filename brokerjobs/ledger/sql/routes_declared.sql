-- Records that routes now exist at the broker. Doorbells that were published before that, in vain, are held for some
-- seconds: they are let go at once. A route that had been retired may have lost doorbells with its queue: its jobs that wait
-- for a delivery are rung again.
create or replace function routes_declared(p_names text[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  v_name text;
begin
  for v_name in select r.name from route r where r.name = any (p_names) and r.retired_at is not null for update loop
    perform ring_again(v_name, 'routes', '00000000-0000-0000-0000-000000000000', 10000);
  end loop;
  with declared as (
    update route r set declared_at = clock(), trouble = null, retired_at = null
      where r.name = any (p_names) and (r.declared_at is null or r.retired_at is not null) returning r.name),
  waiting as (
    select o.ticket from outbox o join job j on j.id = o.job_id join declared d on d.name = j.route
      where o.taken > 0 for update of o skip locked)
  update outbox x set hold_until = clock() from waiting w where x.ticket = w.ticket;
end $$;
