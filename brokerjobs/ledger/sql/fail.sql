-- Reports failures: recorded (with the job's state and the time of its next try) | rejected | already_reported | locked.
-- p_failures: {class, classified, type, message, traceback, retry_after, result} as JSON.
create or replace function fail(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_failures text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
begin
  return query select * from report_failures('failed', p_jobs, p_attempts, p_fencing_numbers, p_failures, p_observed_at,
    p_started_at, p_renewals, p_margins, p_round_trips);
end $$;
