-- The queued jobs of a type, with these tags or any, at most p_limit: what a person is shown the number of before they are
-- cancelled. Read by the partial indexes of queued jobs, never by all jobs.
create or replace function queued_jobs(p_namespace text, p_type text, p_tags jsonb, p_limit integer)
returns table (job_id uuid)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select x.job_id from (
      select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery'
      union all
      select s.job_id from job_state s where s.state = 'queued' and s.wait_until is not null and s.waiting <> 'delivery'
      union all
      select k.job_id from parked k join job_state s on s.job_id = k.job_id
        where k.namespace = p_namespace and k.type = p_type and s.state = 'queued' and s.waiting = 'pause') x
    join job j on j.id = x.job_id
    where j.namespace = p_namespace and j.type = p_type and (p_tags is null or j.tags @> p_tags)
    limit p_limit
$$;
