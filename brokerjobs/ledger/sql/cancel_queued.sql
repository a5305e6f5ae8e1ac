-- Cancels those of these jobs that are queued, and no other: cancelled | locked (busy just now: ask again) | left (it is no
-- longer queued, `state` says what it is). A batch, so it waits for no row (rule R9). What a call before has cancelled for
-- the same person and reason is answered `cancelled` again (rule R7).
create or replace function cancel_queued(p_jobs uuid[], p_by text, p_reason text)
returns table (job_id uuid, verdict text, state text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  d decision;
  t timestamptz;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; state := null;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'left' end;
      return next; continue;
    end if;
    state := s.state;
    if s.state = 'queued' then
      t := clock();
      s.cancel := coalesce(s.cancel, jsonb_build_object('by', p_by, 'reason', p_reason, 'at', rfc3339(t)));
      update job_state x set cancel = s.cancel where x.job_id = p_jobs[i];
      d.state := 'cancelled';
      d.reason := p_reason;
      perform move_job(s, d, 'cancelled', null, t, jsonb_build_object('by', p_by));
      verdict := 'cancelled'; state := 'cancelled';
    else
      verdict := case when s.state = 'cancelled' and s.cancel ->> 'by' = p_by and s.cancel ->> 'reason' = p_reason
        then 'cancelled' else 'left' end;
    end if;
    return next;
  end loop;
end $$;
