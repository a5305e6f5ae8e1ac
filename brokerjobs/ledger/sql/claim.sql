-- Claims jobs as claim_jobs, for code of the release before.
create or replace function claim(
  p_worker uuid, p_worker_name text, p_namespace text, p_types text[],
  p_jobs uuid[], p_attempts uuid[], p_routes text[], p_tickets uuid[], p_redelivered boolean[], p_delivered_at timestamptz[])
returns table (
  job_id uuid, attempt_id uuid, verdict text, state text, until timestamptz,
  number integer, fencing_number bigint, lease_seconds double precision, time_limit_seconds double precision,
  repeatable boolean, checked boolean, type text, payload text,
  key text, submitted_by text, tags jsonb, deadline timestamptz, traceparent text)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  select c.job_id, c.attempt_id, c.verdict, c.state, c.until, c.number, c.fencing_number, c.lease_seconds, c.time_limit_seconds,
      c.repeatable, c.checked, c.type, c.payload, c.key, c.submitted_by, c.tags, c.deadline, c.traceparent
    from claim_jobs(p_worker, p_worker_name, p_namespace, p_types, p_jobs, p_attempts, p_routes, p_tickets, p_redelivered, p_delivered_at) c
$$;
