-- The state of jobs in one look, without locks: for people and waiters, it decides nothing.
create or replace function status(p_jobs uuid[])
returns table (job_id uuid, state text, waiting text, wait_until timestamptz, wait_detail jsonb, number integer,
  failure_class text, failure_reason text, cancel jsonb, deadline timestamptz, past_deadline boolean)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select s.job_id, s.state, z.waiting, s.wait_until, z.detail,
      s.number, s.failure_class, s.failure_reason, s.cancel, s.deadline, s.finished_at is null and s.deadline <= clock()
    from job_state s cross join lateral waits_for(s.job_id, s.waiting, s.wait_detail) z
    where s.job_id = any (p_jobs)
$$;
