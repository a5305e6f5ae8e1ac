-- The loop shared by fail and release.
create or replace function report_failures(
  p_as text, p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_failures text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  s job_state;
  r report_answer;
  t timestamptz;
  v_failure jsonb;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; reason := null; late := null; state := null; until := null;
    v_failure := p_failures[i]::jsonb;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found and exists (select from job_state x where x.job_id = p_jobs[i]) then
      verdict := 'locked'; return next; continue;
    end if;
    t := clock();
    if holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      r := record_failure(s, p_as, v_failure, p_observed_at[i], p_started_at[i], p_renewals[i], p_margins[i], p_round_trips[i], t);
    else
      r := answer_of(s, p_jobs[i], p_attempts[i], p_fencing_numbers[i], p_as, v_failure -> 'result', v_failure - 'result', p_observed_at[i], t);
    end if;
    verdict := r.verdict; reason := r.reason; late := r.late; state := r.state; until := r.until;
    return next;
  end loop;
end $$;
