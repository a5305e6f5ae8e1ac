-- One poll for all waiters: where each of the jobs stands, and what ended those that have ended or stand in review. `decided`:
-- a person ended it, as in review_end. A job that the ledger does not know has no row.
create or replace function outcomes(p_jobs uuid[])
returns table (job_id uuid, state text, waiting text, result text, failure_class text, reason text, attempts jsonb, decided jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select r.job_id, r.state, r.waiting, r.result, r.failure_class, r.reason, r.attempts,
      (select review_end(v) - 'result' from review v where v.id = s.accepted_review_id)
    from results(p_jobs) r join job_state s on s.job_id = r.job_id
$$;
