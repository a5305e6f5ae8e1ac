-- Cancels a job: cancelled (it was queued) | requested (running or in review: obeyed when the attempt or the review ends)
-- | refused (it has finished, `state` says how) | unknown_job.
-- The same wish of the same person asked again, since the reply was lost, has the same verdict after the job's end (rule R7).
create or replace function cancel(p_job uuid, p_by text, p_reason text)
returns table (verdict text, state text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
#variable_conflict use_column
declare
  s job_state;
  d decision;
  t timestamptz;
begin
  select * into s from job_state x where x.job_id = p_job for update;
  if not found then
    return query select 'unknown_job', null::text; return;
  end if;
  t := clock();
  if s.state in ('succeeded', 'failed', 'cancelled') then
    return query select case
      when s.cancel ->> 'by' is distinct from p_by or s.cancel ->> 'reason' is distinct from p_reason then 'refused'
      when exists (select from event e where e.job_id = p_job and e.kind = 'cancel_requested') then 'requested'
      else 'cancelled' end, s.state;
    return;
  end if;
  if s.cancel is null then
    s.cancel := jsonb_build_object('by', p_by, 'reason', p_reason, 'at', rfc3339(t));
    update job_state x set cancel = s.cancel where x.job_id = p_job;
    if s.state <> 'queued' then
      perform note(p_job, s.attempt_id, 'cancel_requested', s.state, t, jsonb_build_object('by', p_by, 'reason', p_reason));
    end if;
  end if;
  if s.state <> 'queued' then
    return query select 'requested', s.state; return;
  end if;
  d.state := 'cancelled';
  d.reason := p_reason;
  perform move_job(s, d, 'cancelled', null, t, jsonb_build_object('by', p_by));
  return query select 'cancelled', 'cancelled';
end $$;
