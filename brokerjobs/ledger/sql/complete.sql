-- Reports results: accepted | rejected (reason) | already_reported | locked (no answer, ask again). The hot path of a
-- worker: rows are decided one by one under their locks, events are appended set-based after the loop.
create or replace function complete(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_results text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
#variable_conflict use_column
declare
  s job_state;
  r report_answer;
  t timestamptz;
  v_result jsonb;
  g_index integer[] := '{}';
  g_at timestamptz[] := '{}';
  g_late boolean[] := '{}';
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; reason := null; late := null; state := null; until := null;
    v_result := p_results[i]::jsonb;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found and exists (select from job_state x where x.job_id = p_jobs[i]) then
      verdict := 'locked'; return next; continue;
    end if;
    t := clock();
    if holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      r := accept_result(s, v_result, p_observed_at[i], p_started_at[i], p_renewals[i], p_margins[i], p_round_trips[i], t);
      if r.verdict = 'accepted' then
        g_index := g_index || i; g_at := g_at || t; g_late := g_late || r.late;
      end if;
    else
      r := answer_of(s, p_jobs[i], p_attempts[i], p_fencing_numbers[i], 'completed', v_result, null, p_observed_at[i], t);
    end if;
    verdict := r.verdict; reason := r.reason; late := r.late; state := r.state; until := r.until;
    return next;
  end loop;
  insert into event (at, job_id, attempt_id, kind, state, detail)
    select g.at, p_jobs[g.i], p_attempts[g.i], 'succeeded', 'succeeded', case when g.late then '{"late": true}'::jsonb end
      from unnest(g_index, g_at, g_late) g (i, at, late);
end $$;
