-- One review by its id or its job's, with the record of the job; null if there is none.
create or replace function review_show(p_id uuid) returns table (review jsonb, record jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select review_json(v), record(v.job_id) from review_of(p_id) v where v.id is not null
$$;
