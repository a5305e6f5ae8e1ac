-- Reports results: accepted | rejected (reason) | already_reported | locked (no answer, ask again). The hot path of a
-- worker: rows are decided one by one under their locks and written set-based after the loop, as in claim.
create or replace function complete(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_results text[], p_observed_at timestamptz[],
  p_started_at timestamptz[], p_renewals integer[], p_margins double precision[], p_round_trips double precision[])
returns table (job_id uuid, attempt_id uuid, verdict text, reason text, late boolean, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  s job_state;
  r report_answer;
  t timestamptz;
  v_text text;
  v_result jsonb;
  v_refusal text;
  v_late boolean;
  v_repeats boolean[] := repeats(p_jobs);
  g_index integer[] := '{}';
  g_late boolean[] := '{}';
  g_lease_until timestamptz[] := '{}';
  g_at timestamptz[] := '{}';
  g_result jsonb[] := '{}';
  g_holding uuid[] := '{}';
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; reason := null; late := null; state := null; until := null;
    if v_repeats[i] then
      verdict := 'locked'; return next; continue;
    end if;
    v_text := p_results[i];  -- once: each look into the array passes over those before
    v_result := v_text::jsonb;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found and exists (select from job_state x where x.job_id = p_jobs[i]) then
      verdict := 'locked'; return next; continue;
    end if;
    t := clock();
    if not holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      r := answer_of(s, p_jobs[i], p_attempts[i], p_fencing_numbers[i], 'completed', v_result, null, p_observed_at[i], t);
    else
      v_refusal := refusal_of(s, t);
      if s.holds and v_refusal is null then
        v_refusal := keeps_resources(s, false);
        if v_refusal = 'locked' then
          verdict := 'locked'; return next; continue;
        end if;
      end if;
      -- What names no artifact is not looked through: workers' JSON never escapes letters.
      if v_refusal is null and strpos(v_text, 'brokerjobs.artifact') > 0
          and artifacts_problem(s, v_result) is not null then
        v_refusal := 'artifact_not_ready';
      end if;
      if v_refusal is not null then
        if v_refusal = 'resource_taken' and s.state <> 'running' then
          -- The job stands where its attempt's end has put it: that attempt has lost its resource, and its result comes too late.
          r := answer_of(s, p_jobs[i], p_attempts[i], p_fencing_numbers[i], 'completed', v_result, null, p_observed_at[i], t);
        else
          r := refuse_result(s, v_refusal, v_result, p_observed_at[i], p_started_at[i], p_renewals[i], p_margins[i], p_round_trips[i], t);
        end if;
      else
        if s.holds then
          g_holding := g_holding || s.job_id;
        end if;
        v_late := s.state <> 'running' or s.lease_until <= t;
        r := row('accepted', null, v_late, 'succeeded', null);
        g_index := g_index || i; g_late := g_late || v_late; g_lease_until := g_lease_until || s.lease_until;
        g_at := g_at || t; g_result := g_result || v_result;
      end if;
    end if;
    verdict := r.verdict; reason := r.reason; late := r.late; state := r.state; until := r.until;
    return next;
  end loop;
  if cardinality(g_index) > 0 then
    perform accept_results(
      array(select p_jobs[i] from unnest(g_index) i), array(select p_attempts[i] from unnest(g_index) i), g_late, g_lease_until, g_at, g_result,
      array(select p_observed_at[i] from unnest(g_index) i), array(select p_started_at[i] from unnest(g_index) i),
      array(select p_renewals[i] from unnest(g_index) i), array(select p_margins[i] from unnest(g_index) i),
      array(select p_round_trips[i] from unnest(g_index) i));
    for i in 1 .. cardinality(g_holding) loop
      perform let_go(g_holding[i], t);
    end loop;
  end if;
end $$;
