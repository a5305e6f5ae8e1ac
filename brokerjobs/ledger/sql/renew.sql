-- Renews leases: kept | lost | cancel_requested (kept, and a cancel is wanted) | locked (no answer, ask again).
-- Touches lease_until only, so that the update stays HOT. The first renewal that carries an observed start records it.
create or replace function renew(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_started_at timestamptz[])
returns table (job_id uuid, attempt_id uuid, verdict text, lease_seconds double precision)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
#variable_conflict use_column
declare
  s job_state;
  t timestamptz;
  v_lease interval;
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
    if s.state <> 'running' or s.attempt_id <> p_attempts[i] or s.fencing_number <> p_fencing_numbers[i] or s.reported then
      verdict := 'lost'; return next; continue;
    end if;
    select lease into v_lease from job x where x.id = s.job_id;
    update job_state x set lease_until = greatest(s.lease_until, t + v_lease) where x.job_id = s.job_id;
    if p_started_at[i] is not null then
      update attempt a set started_at = t, observed_started_at = p_started_at[i]
        where a.id = p_attempts[i] and a.started_at is null;
    end if;
    verdict := case when s.cancel is null then 'kept' else 'cancel_requested' end;
    lease_seconds := date_part('epoch', v_lease);
    return next;
  end loop;
end $$;
