-- Records that routes now exist at the broker. Doorbells that were published before that, in vain, are held for some
-- seconds: they are let go at once.
create or replace function routes_declared(p_names text[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  with declared as (
    update route r set declared_at = clock(), trouble = null where r.name = any (p_names) and r.declared_at is null returning r.name),
  waiting as (
    select o.ticket from outbox o join job j on j.id = o.job_id join declared d on d.name = j.route
      where o.taken > 0 for update of o skip locked)
  update outbox x set hold_until = clock() from waiting w where x.ticket = w.ticket
$$;
