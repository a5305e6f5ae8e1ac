-- Public: the artifacts of a job as JSON, by attempt, then by when they were ready: those of its result, or those of all
-- attempts, uploads that have not ended included.
create or replace function artifacts_v1(p_job uuid, p_all_attempts boolean default false) returns setof jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select artifact_json(a, s) from artifact a join job_state s on s.job_id = a.job_id
    where a.job_id = p_job and (p_all_attempts or a.ready_at is not null and artifact_is_visible(a, s))
    order by a.number, a.ready_at, a.id
$$;
