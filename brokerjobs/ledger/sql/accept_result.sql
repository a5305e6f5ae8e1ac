-- Accepts, or refuses for deadline or cancel, the result of an attempt that holds its place on the locked state row.
create or replace function accept_result(
  s job_state, p_result jsonb, p_observed_at timestamptz, p_started_at timestamptz,
  p_renewals integer, p_margin double precision, p_round_trip double precision, t timestamptz)
returns report_answer language plpgsql volatile as $$
declare
  j job;
  d decision;
  r report_answer;
  v_refusal text := case when s.deadline <= t then 'deadline' when s.cancel is not null then 'job_cancelled' end;
begin
  r.late := s.state <> 'running' or s.lease_until <= t;
  r.verdict := case when v_refusal is null then 'accepted' else 'rejected' end;
  r.reason := v_refusal;
  if v_refusal is null then
    r.state := 'succeeded';
    update job_state x set state = 'succeeded', waiting = null, wait_until = null, wait_detail = null, lease_until = null,
        reported = true, accepted_attempt_id = s.attempt_id, finished_at = t
      where x.job_id = s.job_id;
    if s.state = 'review' then
      update review v set closed_at = t, closed_as = 'succeeded', closed_by = 'late success'
        where v.job_id = s.job_id and v.closed_at is null;
    end if;
  else
    select * into j from job x where x.id = s.job_id;
    d := decide(s, j, 'refused', '{}', t);
    r.state := d.state;
  end if;
  update attempt a set
      closed_at = coalesce(a.closed_at, t),
      closed_as = coalesce(a.closed_as, case v_refusal when 'deadline' then 'failed' when 'job_cancelled' then 'cancelled' else 'completed' end),
      closed_by = coalesce(a.closed_by, 'report'),
      closed_why = case when a.closed_at is null then v_refusal else a.closed_why end,
      reported_at = t, observed_reported_at = p_observed_at, reported_as = 'completed',
      verdict = r.verdict, verdict_reason = r.reason, late = r.late, answer_state = r.state, result = p_result,
      started_at = coalesce(a.started_at, case when p_started_at is not null then t end),
      observed_started_at = coalesce(a.observed_started_at, p_started_at),
      lease_last_until = coalesce(s.lease_until, a.lease_last_until),
      renewals = p_renewals, smallest_margin = make_interval(secs => p_margin), longest_round_trip = make_interval(secs => p_round_trip)
    where a.id = s.attempt_id;
  if v_refusal is not null then
    s.reported := true;
    perform move_job(s, d, 'result_refused', s.attempt_id, t, jsonb_build_object('refused', v_refusal));
  end if;
  return r;
end $$;
