-- What a job needs of the worker that runs it, by its type and by its submission; null if nothing.
create or replace function needs_of_job(j job) returns jsonb language sql immutable as $$
  select nullif(worker_needs(coalesce(j.needs, '[]') || coalesce(j.added_needs, '[]')), '[]')
$$;
