-- The names of a job's effects of which somebody must say what became of them; null if there are none.
create or replace function unknown_effects(p_job uuid) returns text language sql stable as $$
  select string_agg(distinct e.name, ', ') from effect e where e.job_id = p_job and is_unknown(e)
$$;
