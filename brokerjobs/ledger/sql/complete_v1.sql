-- Public: call it last in your own transaction. Your writes and the accepted result commit together; raises BJ001, BJ002
-- or BJ003 otherwise. Answers whether the result was late. Never call it again after a COMMIT without an answer: ask.
create or replace function complete_v1(
  p_job uuid, p_attempt uuid, p_fencing_number bigint, p_result jsonb, p_observed_at timestamptz default null)
returns boolean
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  s job_state := hold_place_or_raise(p_job, p_attempt, p_fencing_number, false);
  r report_answer;
  t timestamptz := clock();
begin
  r := accept_result(s, p_result, p_observed_at, null, 0, null, null, t);
  if r.verdict <> 'accepted' then
    raise exception 'attempt % of job % is stale: %', p_attempt, p_job, r.reason using errcode = 'BJ003', detail = r.reason;
  end if;
  perform note(p_job, p_attempt, 'succeeded', 'succeeded', t, jsonb_build_object('late', r.late, 'in_transaction', true));
  return r.late;
end $$;
