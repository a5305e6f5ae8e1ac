-- Artifacts as JSON, newest first, filtered; p_before is the id of the last one seen (keyset pages, ids grow with time).
-- Without p_all_attempts those of the results of jobs alone.
create or replace function list_artifacts(
  p_namespace text, p_state text, p_all_attempts boolean, p_before uuid, p_limit integer)
returns setof jsonb language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select artifact_json(a, s) from artifact a join job_state s on s.job_id = a.job_id
    where (p_namespace is null or a.namespace = p_namespace) and (p_state is null or a.state = p_state)
      and (p_all_attempts or a.ready_at is not null and artifact_is_visible(a, s)) and (p_before is null or a.id < p_before)
    order by a.id desc limit least(p_limit, 1000)
$$;
