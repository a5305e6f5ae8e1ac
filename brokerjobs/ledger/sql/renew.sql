-- Renews leases: kept | lost (given up, or about to be: a renewal after expiry is refused, its result is not)
-- | cancel_requested (kept, and a cancel is wanted) | locked (no answer, ask again). Past its job's deadline an attempt is
-- ended here, if no coordinator has done it, and answered `lost`.
-- Touches lease_until only, so that the update stays HOT. The first renewal that carries an observed start records it.
create or replace function renew(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_started_at timestamptz[])
returns table (job_id uuid, attempt_id uuid, verdict text, lease_seconds double precision)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  s job_state;
  t timestamptz;
  v_lease interval;
  g_job uuid[] := '{}';
  g_until timestamptz[] := '{}';
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; lease_seconds := null;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'lost' end;
      return next; continue;
    end if;
    t := clock();
    if s.state <> 'running' or not holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      verdict := 'lost'; return next; continue;
    end if;
    if s.deadline <= t then
      update attempt a set started_at = t, observed_started_at = p_started_at[i]
        where a.id = p_attempts[i] and a.started_at is null and p_started_at[i] is not null;
      perform end_at_deadline(s, (select x from job x where x.id = s.job_id), 'renewal', t);
      verdict := 'lost'; return next; continue;
    end if;
    select lease into v_lease from job x where x.id = s.job_id;
    if lease_is_over(s, v_lease, t) then
      verdict := 'lost'; return next; continue;  -- the next tick of the reaper, or a claim, gives it up
    end if;
    g_job := g_job || s.job_id; g_until := g_until || greatest(s.lease_until, t + v_lease);
    if p_started_at[i] is not null then
      update attempt a set started_at = t, observed_started_at = p_started_at[i]
        where a.id = p_attempts[i] and a.started_at is null;
    end if;
    verdict := case when s.cancel is null then 'kept' else 'cancel_requested' end;
    lease_seconds := date_part('epoch', v_lease);
    return next;
  end loop;
  update job_state x set lease_until = g.until from unnest(g_job, g_until) g (job, until) where x.job_id = g.job;
end $$;
