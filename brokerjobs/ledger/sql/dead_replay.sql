-- Lets failed jobs run again: the same jobs with their history, p_attempts more attempts (null: as many as their retry
-- policies say), and no earlier attempt that could still be accepted. At most 1 000 at a call; none is waited for.
-- The deadline: a new one, p_deadline or p_deadline_in from now, or the job's own if that is not over.
-- Verdicts: replayed | deadline (it has passed, and no new one is given) | refused (`state`: it has not failed) | locked (ask
-- again) | unknown | request_reused. `repeated`: this request has done so before, and nothing was done now.
create or replace function dead_replay(
  p_request uuid, p_jobs uuid[], p_by text, p_reason text, p_attempts integer, p_deadline timestamptz, p_deadline_in interval)
returns table (job_id uuid, verdict text, state text, repeated boolean)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_arguments jsonb := jsonb_strip_nulls(jsonb_build_object('attempts', p_attempts, 'deadline', rfc3339(p_deadline), 'deadline_in', p_deadline_in));
  v_answer jsonb;
  v_deadline timestamptz;
  s job_state;
  d decision;
  t timestamptz := clock();
begin
  perform require_read_committed();
  if cardinality(p_jobs) > 1000 then
    raise exception 'at most 1000 jobs are replayed at once, not %', cardinality(p_jobs) using errcode = 'invalid_parameter_value';
  elsif p_attempts not between 1 and 100 then
    raise exception '1 to 100 attempts can be granted, not %', p_attempts using errcode = 'invalid_parameter_value';
  elsif not coalesce(p_deadline, t + p_deadline_in, t + interval '1 day') between t and t + interval '365 days' then
    raise exception 'the new deadline is not within a year from now' using errcode = 'invalid_parameter_value';
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
    v_answer := asked_before(p_request, s.job_id, 'dead replay', v_arguments);
    if v_answer is not null then
      verdict := v_answer ->> 'verdict'; repeated := coalesce((v_answer -> 'repeated')::boolean, false);
      return next; continue;
    end if;
    v_deadline := coalesce(p_deadline, t + p_deadline_in, s.deadline);
    if s.state <> 'failed' then
      verdict := 'refused'; return next; continue;
    elsif v_deadline <= t then
      verdict := 'deadline'; return next; continue;
    end if;
    -- The row forgets its attempt: whatever that one still says is rejected. A cancel that was noted in a review is withdrawn.
    update job_state x set attempt_id = null, reported = false, started = false, forgiven = x.charged, granted = p_attempts,
        first_claimed_at = null, deadline = v_deadline, cancel = null
      where x.job_id = s.job_id;
    s.attempt_id := null; s.reported := false;
    d := row('queued', 'delivery', null, null, null, p_reason);
    perform move_job(s, d, 'replayed', null, t, jsonb_strip_nulls(jsonb_build_object('by', p_by, 'login', session_user,
      'attempts', p_attempts, 'request', p_request, 'deadline', case when v_deadline is distinct from s.deadline then rfc3339(v_deadline) end,
      'cancel_withdrawn', s.cancel)));
    perform answered(p_request, s.job_id, 'dead replay', v_arguments, '{"verdict": "replayed"}', p_by, t);
    verdict := 'replayed'; state := 'queued';
    return next;
  end loop;
end $$;
