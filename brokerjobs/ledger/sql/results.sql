-- One poll for all waiters: those of the jobs that have finished or stand in review, with what ended them.
create or replace function results(p_jobs uuid[])
returns table (job_id uuid, state text, result text, failure_class text, failure_reason text, cancel_reason text, attempts jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select s.job_id, s.state, (select a.result::text from attempt a where a.id = s.accepted_attempt_id),
      s.failure_class, s.failure_reason, s.cancel ->> 'reason',
      case when s.state in ('failed', 'review') then
        (select jsonb_agg(attempt_json(a, s) - 'result' order by a.number) from attempt a where a.job_id = s.job_id) end
    from job_state s where s.job_id = any (p_jobs) and s.state in ('succeeded', 'failed', 'cancelled', 'review')
$$;
