-- Gives attempts back: uncharged while the job's uncharged roads last (20, rule R5), charged after.
-- p_failures: {why: drain | snooze | not_here, classified, until} as JSON. Verdicts as for fail.
create or replace function release(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_failures text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
begin
  return query select * from report_failures('released', p_jobs, p_attempts, p_fencing_numbers, p_failures, p_observed_at,
    p_started_at, p_renewals, p_margins, p_round_trips);
end $$;
