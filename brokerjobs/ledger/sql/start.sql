-- Commits the start of attempts whose type is not repeatable, before their handlers run (rule R8: "claimed, never
-- started" is retried, "started" is not guessed about). started | cancel_requested (release it) | lost | locked.
create or replace function start(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_observed_at timestamptz[])
returns table (job_id uuid, attempt_id uuid, verdict text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  t timestamptz;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i];
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'lost' end;
      return next; continue;
    end if;
    t := clock();
    if s.state <> 'running' or not holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      verdict := 'lost';
    elsif s.started then
      verdict := 'started';
    elsif s.deadline <= t then
      verdict := 'lost';
      perform end_at_deadline(s, (select x from job x where x.id = s.job_id), 'start', t);
    elsif s.lease_until <= t and lease_is_over(s, (select x.lease from job x where x.id = s.job_id), t) then
      verdict := 'lost';  -- the next tick of the reaper, or a claim, gives it up, and the job is retried
    elsif s.cancel is not null then
      verdict := 'cancel_requested';
    else
      verdict := 'started';
      update job_state x set started = true where x.job_id = s.job_id;
      update attempt a set started_at = t, observed_started_at = p_observed_at[i] where a.id = p_attempts[i];
      perform note(s.job_id, p_attempts[i], 'started', 'running', t, null);
    end if;
    return next;
  end loop;
end $$;
