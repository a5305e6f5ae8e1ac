-- Takes what attempts say of effects that they were granted: a fact about the world, taken however late and however fenced
-- off its attempt is. recorded (it fills the empty outcome, or is the same again; `late`) | contradicts (another was recorded:
-- kept as evidence, and somebody must look at it) | no_intent (kept as evidence) | locked (no answer, ask again).
-- "It did not happen" speaks of the attempt's own call: where others were permitted the same one it is `recorded` as evidence,
-- and fills the outcome only when all of them have said so.
-- p_outcomes: happened (with p_results, what the call returned as JSON) | did_not_happen (p_references says how that is known).
create or replace function effect_outcome(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_names text[], p_tries integer[], p_outcomes text[],
  p_results text[], p_references text[], p_observed_at timestamptz[])
returns table (job_id uuid, attempt_id uuid, verdict text, late boolean)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  e effect;
  t timestamptz;
  v_result jsonb;
  v_as text;
  v_reason text;
  v_others boolean;  -- was the same call permitted to others, too, who have not said that they did not make it?
  v_repeats boolean[] := repeats(p_jobs);
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; verdict := null; late := null;
    if v_repeats[i] then
      verdict := 'locked'; return next; continue;
    end if;
    v_result := p_results[i]::jsonb;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found and exists (select from job_state x where x.job_id = p_jobs[i]) then
      verdict := 'locked'; return next; continue;
    end if;
    t := clock();
    select x.* into e from effect x join effect_intent n on (n.job_id, n.name, n.try) = (x.job_id, x.name, x.try)
      where (x.job_id, x.name, x.try) = (p_jobs[i], p_names[i], p_tries[i])
        and n.attempt_id = p_attempts[i] and n.fencing_number = p_fencing_numbers[i];
    v_as := format('effect %s/%s %s', p_names[i], p_tries[i], p_outcomes[i]);
    v_others := p_outcomes[i] = 'did_not_happen' and e.outcome is distinct from 'did_not_happen' and e.attempt_id is distinct from p_attempts[i]
      and exists (select from effect_intent n where (n.job_id, n.name, n.try) = (e.job_id, e.name, e.try) and n.attempt_id <> p_attempts[i]
        and not exists (select from late_report l where l.job_id = n.job_id
          and (l.attempt_id, l.fencing_number, l.reported_as) = (n.attempt_id, n.fencing_number, v_as)));
    if e.job_id is not null and e.outcome is null and not v_others then
      verdict := 'recorded';
      late := effect_known(s, e, p_outcomes[i], 'attempt', p_attempts[i], v_result, p_references[i], p_observed_at[i], t);
      return next; continue;
    end if;
    -- What a person or a reconciler found out says that it happened, not what the call returned.
    if e.outcome = p_outcomes[i] and (e.known_by <> 'attempt' or e.outcome = 'did_not_happen' or e.result is not distinct from v_result) then
      verdict := 'recorded'; late := e.late; return next; continue;
    end if;
    verdict := case when v_others then 'recorded' when e.job_id is null then 'no_intent' else 'contradicts' end;
    v_reason := case when s.job_id is null then 'unknown_job' when v_others then 'one_of_several' else verdict end;
    if not exists (select from late_report l where l.job_id = p_jobs[i] and l.attempt_id = p_attempts[i]
        and l.reported_as = v_as and l.result is not distinct from v_result) then
      insert into late_report (job_id, attempt_id, fencing_number, received_at, observed_at, reported_as, reason, result, login)
        values (p_jobs[i], p_attempts[i], p_fencing_numbers[i], t, p_observed_at[i], v_as, v_reason, v_result, session_user);
      if s.job_id is not null then
        perform note(s.job_id, p_attempts[i], case verdict
          when 'no_intent' then 'effect_without_intent' when 'recorded' then 'effect_not_by_one' else 'effect_contradicted' end, s.state, t, jsonb_build_object(
          'effect', p_names[i], 'recorded', e.outcome, 'said', p_outcomes[i]));
      end if;
      if verdict = 'contradicts' then
        update effect x set contradicted_at = t where (x.job_id, x.name, x.try) = (e.job_id, e.name, e.try) and x.contradicted_at is null;
        if s.state not in ('succeeded', 'cancelled') and unknown_effects(s.job_id) is not null then  -- those are final
          update job_state x set unknown_effect = true where x.job_id = s.job_id and not x.unknown_effect;
        end if;
      end if;
    end if;
    return next;
  end loop;
end $$;
