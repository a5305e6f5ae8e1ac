-- Records that acknowledgements were sent (worker's clock). Evidence only, so it need not reach the disk at once, and an
-- attempt that is being written just now is left out: waiting for it, row by row, could meet a report in a deadlock.
create or replace function acked(p_attempts uuid[], p_sent_at timestamptz[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set enable_seqscan = off as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  for i in 1 .. cardinality(p_attempts) loop
    update attempt a set ack_sent_at = p_sent_at[i]
      where a.id = (select x.id from attempt x where x.id = p_attempts[i] and x.ack_sent_at is null for no key update skip locked);
  end loop;
end $$;
