-- Records what became of an effect, on the job's locked row. If it was the last unknown one, the job's open review closes by
-- itself, unless the attempt's end is unknown for another reason, too: then it stays, knowing more (rule R8).
create or replace function effect_known(
  s job_state, e effect, p_outcome text, p_by text, p_attempt uuid, p_result jsonb, p_reference text,
  p_observed_at timestamptz, t timestamptz)
returns boolean language plpgsql volatile as $$
declare
  v_late boolean := p_attempt is not null and not (s.state = 'running' and s.attempt_id is not distinct from p_attempt);
begin
  update effect x set outcome = p_outcome, known_at = t, observed_known_at = p_observed_at, known_by = p_by,
      attempt_id = p_attempt, late = v_late, result = p_result, reference = p_reference
    where (x.job_id, x.name, x.try) = (e.job_id, e.name, e.try);
  perform note(s.job_id, p_attempt, case p_outcome when 'happened' then 'effect_happened' else 'effect_did_not_happen' end, s.state, t, jsonb_strip_nulls(jsonb_build_object(
    'effect', e.name, 'key', e.key, 'by', p_by, 'late', case when v_late then true end, 'reference', p_reference)));
  if s.unknown_effect and s.state not in ('succeeded', 'cancelled') and unknown_effects(s.job_id) is null then  -- those are final
    s.unknown_effect := false;
    update job_state x set unknown_effect = false where x.job_id = s.job_id;
    if s.state = 'review' then
      perform leave_review(s, p_attempt, t);
    end if;
  end if;
  return v_late;
end $$;
