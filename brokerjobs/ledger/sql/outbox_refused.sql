-- Gives back messages that the broker has in no queue: taken again after a second, doubling with every try up to a minute.
-- A route that was just made is declared within a second; one that stays away must not cost a publish every few seconds.
-- One that was retired meanwhile, or is of a lane that nobody has used, is wanted from now on; if a submission that has not
-- been committed holds its row, nobody waits for that: it is wanted then, or the next ring is refused as well.
create or replace function outbox_refused(p_tickets uuid[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  update route r set wanted = true
    where r.name in (select x.name from route x where not x.wanted
      and x.name in (select j.route from outbox o join job j on j.id = o.job_id where o.ticket = any (p_tickets)) for update skip locked);
  update outbox x set hold_until = clock() + make_interval(secs => least(60, power(2, least(g.taken, 7) - 1)))
    from (select o.ticket, o.taken from outbox o where o.ticket = any (p_tickets) for update skip locked) g
    where x.ticket = g.ticket
$$;
