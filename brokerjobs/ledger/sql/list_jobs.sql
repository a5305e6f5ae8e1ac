-- Jobs, newest first, filtered; p_before is the id of the last one seen (keyset pages). As `list`, and whether a job is past
-- its deadline and not finished: in review, or nobody has recorded it yet.
create or replace function list_jobs(
  p_namespace text, p_type text, p_state text, p_key text, p_tags jsonb, p_before uuid, p_limit integer)
returns table (job_id uuid, namespace text, type text, state text, waiting text, wait_until timestamptz, number integer,
  key text, submitted_by text, submitted_at timestamptz, finished_at timestamptz, failure_class text, failure_reason text, tags jsonb,
  past_deadline boolean)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select j.id, j.namespace, j.type, s.state,
      (waits_for(s.job_id, s.waiting, '{}')).waiting, s.wait_until, s.number, j.key, j.submitted_by, j.submitted_at, s.finished_at,
      s.failure_class, s.failure_reason, j.tags,
      s.finished_at is null and coalesce(s.deadline <= clock(), false)
    from job j join job_state s on s.job_id = j.id
    where (p_namespace is null or j.namespace = p_namespace) and (p_type is null or j.type = p_type)
      and (p_state is null or s.state = p_state) and (p_key is null or j.key = p_key)
      and (p_tags is null or j.tags @> p_tags) and (p_before is null or j.id < p_before)
    order by j.id desc limit least(p_limit, 1000)
$$;
