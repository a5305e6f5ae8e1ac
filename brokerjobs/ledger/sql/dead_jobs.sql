-- The jobs of a group in the order of their ids, at most p_limit after p_after, each with what its last attempt said.
create or replace function dead_jobs(p_group text, p_after uuid, p_limit integer)
returns table (job_id uuid, failed_at timestamptz, attempts integer, message text)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select x.job_id, x.failed_at, s.number,
      left(coalesce((select a.failure ->> 'message' from attempt a where a.job_id = x.job_id and a.number = s.number), s.failure_reason), 500)
    from dead x join job_state s on s.job_id = x.job_id
    where x.group_id = p_group and x.discarded_at is null and (p_after is null or x.job_id > p_after)
    order by x.job_id limit least(p_limit, 1000)
$$;
