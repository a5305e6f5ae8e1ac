-- Writes accepted results whose rows are locked and hold their place: states, attempts, events, one statement each.
create or replace function accept_results(
  p_jobs uuid[], p_attempts uuid[], p_late boolean[], p_lease_until timestamptz[], p_at timestamptz[], p_results jsonb[],
  p_observed_at timestamptz[], p_started_at timestamptz[], p_renewals integer[], p_margins double precision[],
  p_round_trips double precision[])
returns void language plpgsql volatile as $$
begin
  update job_state x set state = 'succeeded', waiting = null, wait_until = null, wait_detail = null, lease_until = null,
      reported = true, accepted_attempt_id = g.attempt, finished_at = g.at
    from unnest(p_jobs, p_attempts, p_at) g (job, attempt, at)
    where x.job_id = g.job;
  update attempt a set
      closed_at = coalesce(a.closed_at, g.at), closed_as = coalesce(a.closed_as, 'completed'), closed_by = coalesce(a.closed_by, 'report'),
      reported_at = g.at, observed_reported_at = g.observed, reported_as = 'completed', verdict = 'accepted', late = g.late,
      answer_state = 'succeeded', result = g.result,
      started_at = coalesce(a.started_at, case when g.started is not null then g.at end),
      observed_started_at = coalesce(a.observed_started_at, g.started),
      lease_last_until = coalesce(g.lease_until, a.lease_last_until), renewals = g.renewals,
      smallest_margin = make_interval(secs => g.margin), longest_round_trip = make_interval(secs => g.round_trip)
    from unnest(p_attempts, p_late, p_lease_until, p_at, p_results, p_observed_at, p_started_at, p_renewals, p_margins, p_round_trips)
      g (attempt, late, lease_until, at, result, observed, started, renewals, margin, round_trip)
    where a.id = g.attempt;
  insert into event (at, job_id, attempt_id, kind, state, detail)
    select g.at, g.job, g.attempt, 'succeeded', 'succeeded', case when g.late then '{"late": true}'::jsonb end
      from unnest(p_jobs, p_attempts, p_at, p_late) g (job, attempt, at, late);
  if true = any (p_late) then
    update review v set closed_at = clock(), closed_as = 'succeeded', closed_by = 'late success'
      where v.job_id = any (p_jobs) and v.closed_at is null;
  end if;
end $$;
