-- Records the failure or release of an attempt that holds its place on the locked state row, and moves its job.
-- A late one (its lease had been given up) is stored and changes nothing but that the attempt has now reported.
create or replace function record_failure(
  s job_state, p_as text, p_failure jsonb, p_observed_at timestamptz, p_started_at timestamptz,
  p_renewals integer, p_margin double precision, p_round_trip double precision, t timestamptz)
returns report_answer language plpgsql volatile as $$
declare
  j job;
  d decision;
  r report_answer;
  v_result jsonb := p_failure -> 'result';
  v_given_back boolean := false;
begin
  r.verdict := 'recorded';
  r.late := s.state <> 'running';
  r.state := s.state;
  if not r.late then
    select * into j from job x where x.id = s.job_id;
    if p_as = 'released' and s.uncharged < 20 then
      s.charged := s.charged - 1;
      s.uncharged := s.uncharged + 1;
      v_given_back := true;
    end if;
    d := decide(s, j, p_as, p_failure, t);
    r.state := d.state;
    r.until := d.wait_until;
  end if;
  update attempt a set
      closed_at = coalesce(a.closed_at, t),
      closed_as = coalesce(a.closed_as, case when d.state = 'cancelled' then 'cancelled' else p_as end),
      closed_by = coalesce(a.closed_by, 'report'),
      closed_why = case when a.closed_at is null then coalesce(p_failure ->> 'why', p_failure ->> 'class') else a.closed_why end,
      charged = a.charged and not v_given_back,
      reported_at = t, observed_reported_at = p_observed_at, reported_as = p_as,
      verdict = r.verdict, late = r.late, answer_state = r.state, answer_until = r.until,
      failure = p_failure - 'result', result = v_result,
      started_at = coalesce(a.started_at, case when p_started_at is not null then t end),
      observed_started_at = coalesce(a.observed_started_at, p_started_at),
      safe_to_retry = case when r.late then a.safe_to_retry else safe_to_retry(s, j, d, p_failure) end,
      lease_last_until = coalesce(s.lease_until, a.lease_last_until),
      renewals = p_renewals, smallest_margin = make_interval(secs => p_margin), longest_round_trip = make_interval(secs => p_round_trip)
    where a.id = s.attempt_id;
  if r.late then
    update job_state x set reported = true where x.job_id = s.job_id;
    perform note(s.job_id, s.attempt_id, 'late_' || p_as, s.state, t, jsonb_strip_nulls(jsonb_build_object('type', p_failure ->> 'type')));
  else
    s.reported := true;
    perform move_job(s, d, 'attempt_' || p_as, s.attempt_id, t, jsonb_strip_nulls(jsonb_build_object(
      'class', p_failure ->> 'class', 'type', p_failure ->> 'type', 'why', p_failure ->> 'why')));
  end if;
  return r;
end $$;
