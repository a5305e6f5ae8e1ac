-- The effects of a job that have an intent and no outcome, or one that was contradicted, as a JSON array: what a person who
-- decides a review must find out.
create or replace function open_effects(p_job uuid) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(effect_json(e) order by e.made_at, e.name, e.try), '[]') from effect e
    where e.job_id = p_job and (e.outcome is null or is_unknown(e))
$$;
