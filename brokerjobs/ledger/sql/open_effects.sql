-- The effects of a job that have an intent and no outcome, as a JSON array: what a person who decides a review must find out.
create or replace function open_effects(p_job uuid) returns jsonb language sql stable as $$
  select '[]'::jsonb
$$;
