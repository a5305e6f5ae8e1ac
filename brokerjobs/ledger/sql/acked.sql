-- Records that acknowledgements were sent (worker's clock). Evidence only, so it need not reach the disk at once.
create or replace function acked(p_attempts uuid[], p_sent_at timestamptz[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  for i in 1 .. cardinality(p_attempts) loop
    update attempt a set ack_sent_at = p_sent_at[i] where a.id = p_attempts[i] and a.ack_sent_at is null;
  end loop;
end $$;
