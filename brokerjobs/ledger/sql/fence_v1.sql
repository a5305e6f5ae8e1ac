-- Public: call it last in your own transaction. Returns while this attempt is the running one, raises BJ001, BJ002 or
-- BJ003 otherwise, so that a superseded attempt's writes cannot commit.
create or replace function fence_v1(p_job uuid, p_attempt uuid, p_fencing_number bigint) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
begin
  perform hold_place_or_raise(p_job, p_attempt, p_fencing_number, true);
end $$;
