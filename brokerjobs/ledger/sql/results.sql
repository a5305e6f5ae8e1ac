-- One poll for all waiters: where each of the jobs stands, and what ended those that have ended or stand in review.
-- A job that the ledger does not know has no row. For code that does not know that a person can decide a job: `outcomes`.
create or replace function results(p_jobs uuid[])
returns table (job_id uuid, state text, waiting text, result text, failure_class text, reason text, attempts jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select s.job_id, s.state, s.waiting, result_of(s)::text,
      s.failure_class,
      case s.state when 'failed' then s.failure_reason when 'cancelled' then s.cancel ->> 'reason'
        when 'review' then (select r.cause from review r where r.job_id = s.job_id and r.closed_at is null) end,
      case when s.state = 'failed' then
        (select jsonb_agg(attempt_json(a, s) - 'result' order by a.number) from attempt a where a.job_id = s.job_id) end
    from job_state s where s.job_id = any (p_jobs)
$$;
