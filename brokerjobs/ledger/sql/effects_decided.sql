-- What a decision about a review says of the job's unknown effects, on the job's locked row: they happened (p_reference), or
-- they did not, and a contradiction is settled. Answers whether there were any; the caller decides the job.
create or replace function effects_decided(s job_state, p_outcome text, p_by text, p_reference text, t timestamptz)
returns boolean language plpgsql volatile as $$
declare
  e effect;
begin
  if not s.unknown_effect then
    return false;
  end if;
  -- First, so that no outcome closes the review: the decision does.
  update job_state x set unknown_effect = false where x.job_id = s.job_id;
  s.unknown_effect := false;
  for e in select * from effect x where x.job_id = s.job_id and is_unknown(x) order by x.name, x.try loop
    if e.outcome is null then
      perform effect_known(s, e, p_outcome, p_by, null, null, p_reference, null, t);
    else
      update effect x set settled_at = t where (x.job_id, x.name, x.try) = (e.job_id, e.name, e.try);
      perform note(s.job_id, null, 'effect_settled', s.state, t, jsonb_build_object('effect', e.name, 'key', e.key, 'by', p_by));
    end if;
  end loop;
  return true;
end $$;
