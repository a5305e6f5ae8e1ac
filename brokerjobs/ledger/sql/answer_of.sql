-- The answer to a report that finds no open place: the stored verdict if the same report is asked again, evidence kept
-- and `already_reported` for a different second one, else the first report of a closed or superseded attempt, rejected; also
-- of one that still has its place, but whose resource another attempt has taken since.
create or replace function answer_of(
  s job_state, p_job uuid, p_attempt uuid, p_fencing_number bigint, p_as text, p_result jsonb, p_failure jsonb,
  p_observed_at timestamptz, t timestamptz)
returns report_answer language plpgsql volatile as $$
declare
  a attempt;
  r report_answer;
begin
  r.late := true;
  r.state := s.state;
  select * into a from attempt x where x.id = p_attempt and x.job_id = p_job;
  if found and a.fencing_number = p_fencing_number and a.reported_at is not null then
    if a.reported_as = p_as and a.result is not distinct from p_result and a.failure is not distinct from p_failure then
      return row(a.verdict, a.verdict_reason, a.late, a.answer_state, a.answer_until)::report_answer;
    end if;
    r.verdict := 'already_reported';
    r.reason := case a.reported_as when 'released' then 'released' else 'already_reported' end;
  else
    r.verdict := 'rejected';
    r.reason := case
      when s.job_id is null then 'unknown_job'
      when a.id is null or a.fencing_number is distinct from p_fencing_number then 'unknown_attempt'
      when holds_place(s, p_attempt, p_fencing_number) then 'resource_taken'
      when s.state = 'failed' and a.closed_why = 'deadline' then 'deadline'
      when s.state in ('succeeded', 'failed', 'cancelled') then 'job_' || s.state
      when s.attempt_id is distinct from a.id then case when s.attempt_id is null then 'decided' else 'newer_attempt' end
      else 'decided' end;
  end if;
  if r.verdict = 'already_reported' or r.reason in ('unknown_job', 'unknown_attempt') then
    insert into late_report (job_id, attempt_id, fencing_number, received_at, observed_at, reported_as, reason, result, failure, login)
      values (p_job, p_attempt, p_fencing_number, t, p_observed_at, p_as, r.reason, p_result, p_failure, session_user);
  else
    update attempt x set reported_at = t, observed_reported_at = p_observed_at, reported_as = p_as,
        verdict = r.verdict, verdict_reason = r.reason, late = true, answer_state = r.state, result = p_result, failure = p_failure
      where x.id = a.id;
    if s.attempt_id = a.id then
      update job_state x set reported = true where x.job_id = s.job_id;  -- its job ended before: the row knows it, too
    end if;
  end if;
  if s.job_id is not null then
    perform note(p_job, p_attempt, case r.verdict when 'already_reported' then 'second_report' else 'report_rejected' end,
      s.state, t, jsonb_build_object('as', p_as, 'reason', r.reason));
  end if;
  return r;
end $$;
