-- Takes failed jobs out of the list of the dead: they have been seen. They stay in the ledger for as long as failed jobs do.
-- At most 1 000 at a call; none is waited for. Verdicts: discarded | refused (`state`: it has not failed) | locked (ask again)
-- | unknown | request_reused. `repeated`: it was discarded before, and nothing was done now.
create or replace function dead_discard(p_request uuid, p_jobs uuid[], p_by text, p_reason text)
returns table (job_id uuid, verdict text, state text, repeated boolean)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_answer jsonb;
  s job_state;
  t timestamptz;
begin
  perform require_read_committed();
  if cardinality(p_jobs) > 1000 then
    raise exception 'at most 1000 jobs are discarded at once, not %', cardinality(p_jobs) using errcode = 'invalid_parameter_value';
  end if;
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; state := null; repeated := false;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'unknown' end;
      return next; continue;
    end if;
    t := clock();
    state := s.state;
    v_answer := asked_before(p_request, s.job_id, 'dead discard', '{}');
    if v_answer is not null then
      verdict := v_answer ->> 'verdict'; repeated := coalesce((v_answer -> 'repeated')::boolean, false);
    elsif s.state <> 'failed' then
      verdict := 'refused';
    else
      verdict := 'discarded';
      update dead x set discarded_at = t, discarded_by = p_by, discarded_why = p_reason
        where x.job_id = s.job_id and x.discarded_at is null;
      repeated := not found;
      if not repeated then
        perform note(s.job_id, null, 'discarded', s.state, t, jsonb_build_object('by', p_by, 'login', session_user,
          'why', p_reason, 'request', p_request));
      end if;
      perform answered(p_request, s.job_id, 'dead discard', '{}', '{"verdict": "discarded"}', p_by, t);
    end if;
    return next;
  end loop;
end $$;
