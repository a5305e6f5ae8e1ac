-- Public: one artifact as JSON; null if the ledger does not know it.
create or replace function artifact_v1(p_id uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select artifact_json(a, s) from artifact a left join job_state s on s.job_id = a.job_id where a.id = p_id
$$;
