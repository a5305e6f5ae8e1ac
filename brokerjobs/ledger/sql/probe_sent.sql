-- Records what became of probes that were published: confirmed, or not known to be in their queue. Those are forgotten,
-- so that the next look makes others; should one come back after all, nobody knows its ticket.
create or replace function probe_sent(p_confirmed uuid[], p_others uuid[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
  delete from probe p where p.ticket = any (p_others) and p.returned_at is null;
  update probe p set sent_at = clock() where p.ticket = any (p_confirmed) and p.sent_at is null
$$;
