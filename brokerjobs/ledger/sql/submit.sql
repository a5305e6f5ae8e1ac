-- As `submit_jobs`, for producers of earlier releases: without priorities and added needs.
create or replace function submit(
  p_namespace text, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_submitted_by text, p_tags text[],
  p_not_before timestamptz[], p_deadlines timestamptz[], p_traceparents text[], p_fingerprint text,
  p_observed_at timestamptz, p_announced boolean, p_not_before_in interval[] default null, p_deadlines_in interval[] default null)
returns table (id uuid, verdict text, job_id uuid, ticket uuid, route text, detail jsonb)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  select * from submit_jobs(p_namespace, p_type, p_ids, p_payloads, p_keys, p_submitted_by, p_tags, p_not_before, p_deadlines,
    p_traceparents, p_fingerprint, p_observed_at, p_announced, p_not_before_in, p_deadlines_in)
$$;
