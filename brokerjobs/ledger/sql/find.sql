-- The job submitted under an idempotency key; no row if there is none.
create or replace function find(p_namespace text, p_type text, p_key text) returns table (job_id uuid)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select k.job_id from idempotency_key k where k.namespace = p_namespace and k.type = p_type and k.key = p_key
$$;
