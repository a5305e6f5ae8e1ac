-- Does this attempt still have its place, without a lock? Decides nothing: a fenced transaction looks before it begins, so
-- that one which could never commit fails early. p_running: it must be running, not just the last one.
create or replace function standing(p_job uuid, p_attempt uuid, p_fencing_number bigint, p_running boolean) returns boolean
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select exists (select from job_state s where s.job_id = p_job and holds_place(s, p_attempt, p_fencing_number)
    and (s.state = 'running' or not p_running))
$$;
