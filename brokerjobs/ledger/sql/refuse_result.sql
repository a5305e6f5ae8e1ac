-- Refuses the result of an attempt that holds its place on the locked state row: the attempt is closed, the result kept as
-- evidence, and rule R8 decides the job in the same call: artifact_not_ready is a result as invalid as one over its limit.
create or replace function refuse_result(
  s job_state, p_refusal text, p_result jsonb, p_observed_at timestamptz, p_started_at timestamptz,
  p_renewals integer, p_margin double precision, p_round_trip double precision, t timestamptz)
returns report_answer language plpgsql volatile as $$
declare
  j job;
  d decision;
  r report_answer;
  v_waits_on boolean;
  v_failure jsonb := case p_refusal when 'artifact_not_ready' then jsonb_build_object(
    'class', 'invalid', 'classified', true, 'returned', true, 'type', 'ArtifactNotReady', 'message', artifacts_problem(s, p_result)) else '{}' end;
begin
  select * into j from job x where x.id = s.job_id;
  d := decide(s, j, case p_refusal when 'artifact_not_ready' then 'failed' else 'refused' end, v_failure, t);
  r.verdict := 'rejected';
  r.reason := p_refusal;
  r.late := s.state <> 'running' or s.lease_until <= t;
  -- An effect was contradicted while the job waits: a waiting job moves to no review, whoever runs it next finds it unknown.
  -- Nor does it move for a late result that is no good: like a late failure, that is kept and changes nothing.
  v_waits_on := s.state = 'queued' and d.state = 'review' or s.state <> 'running' and p_refusal = 'artifact_not_ready';
  r.state := case when v_waits_on then s.state else d.state end;
  update attempt a set
      closed_at = coalesce(a.closed_at, t),
      closed_as = coalesce(a.closed_as, case p_refusal when 'job_cancelled' then 'cancelled' else 'failed' end),
      closed_by = coalesce(a.closed_by, 'report'),
      closed_why = case when a.closed_at is null then p_refusal else a.closed_why end,
      reported_at = t, observed_reported_at = p_observed_at, reported_as = 'completed',
      verdict = r.verdict, verdict_reason = r.reason, late = r.late, answer_state = r.state, result = p_result,
      started_at = coalesce(a.started_at, case when p_started_at is not null then t end),
      observed_started_at = coalesce(a.observed_started_at, p_started_at),
      safe_to_retry = coalesce(a.safe_to_retry, safe_to_retry(s, j, d, v_failure)),
      lease_last_until = coalesce(s.lease_until, a.lease_last_until),
      renewals = p_renewals, smallest_margin = make_interval(secs => p_margin), longest_round_trip = make_interval(secs => p_round_trip)
    where a.id = s.attempt_id;
  if v_waits_on then
    update job_state x set reported = true where x.job_id = s.job_id;
    perform note(s.job_id, s.attempt_id, 'result_refused', s.state, t, jsonb_strip_nulls(jsonb_build_object('refused', p_refusal, 'why', v_failure ->> 'message')));
    return r;
  end if;
  s.reported := true;
  perform move_job(s, d, 'result_refused', s.attempt_id, t, jsonb_build_object('refused', p_refusal));
  return r;
end $$;
