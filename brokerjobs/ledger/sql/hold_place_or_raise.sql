-- Locks the state row inside a caller's transaction and checks rule R1, or raises so that the transaction cannot commit:
-- BJ001 wrong isolation, BJ002 already reported, BJ003 stale attempt. A stopped caller frees the row within 10 s.
create or replace function hold_place_or_raise(p_job uuid, p_attempt uuid, p_fencing_number bigint, p_running boolean)
returns job_state language plpgsql volatile as $$
declare
  s job_state;
  v_why text;
  v_standing text;
begin
  perform require_read_committed();
  perform set_config('idle_in_transaction_session_timeout', least(10000,
    coalesce(nullif(extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval) * 1000, 0), 10000))::integer::text, true);
  select * into s from job_state x where x.job_id = p_job for update;
  if s.attempt_id = p_attempt and s.fencing_number = p_fencing_number and s.reported
     or exists (select from attempt a where a.id = p_attempt and a.reported_at is not null) then
    raise exception 'attempt % of job % has reported already', p_attempt, p_job using errcode = 'BJ002';
  end if;
  if s.holds and holds_place(s, p_attempt, p_fencing_number) then
    v_standing := keeps_resources(s, true);
  end if;
  v_why := case
    when s.job_id is null then 'unknown_job'
    when s.state in ('succeeded', 'failed', 'cancelled') then 'job_' || s.state
    when not holds_place(s, p_attempt, p_fencing_number) then case when s.attempt_id is null then 'decided' else 'newer_attempt' end
    when p_running and s.state <> 'running' then 'lease_expired'
    when s.deadline <= clock() then 'deadline'
    when s.cancel is not null then 'job_cancelled'
    else v_standing end;
  if v_why is not null then
    raise exception 'attempt % of job % is stale: %', p_attempt, p_job, v_why using errcode = 'BJ003', detail = v_why;
  end if;
  return s;
end $$;
