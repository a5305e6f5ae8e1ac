-- Makes the kept success of a lost last attempt the result of its failed job: it came after the job had ended, and a person
-- takes it all the same. The attempt's report stays rejected, as it was answered; the job names the attempt, and the event
-- who decided. Verdicts: adopted | refused (`why`, with the job's `state`) | request_reused | unknown.
create or replace function adopt(p_job uuid, p_attempt uuid, p_request uuid, p_by text, p_reason text) returns jsonb
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  v_arguments jsonb := jsonb_build_object('attempt', p_attempt);
  v_answer jsonb;
  v_why text;
  s job_state;
  v_named job_state;
  a attempt;
  d decision;
  t timestamptz;
begin
  perform require_read_committed();
  select * into s from job_state x where x.job_id = p_job for update;
  if not found then
    return '{"verdict": "unknown"}';
  end if;
  t := clock();
  v_answer := asked_before(p_request, p_job, 'jobs adopt', v_arguments);
  if v_answer is not null then
    return v_answer;
  end if;
  select * into a from attempt x where x.id = p_attempt and x.job_id = p_job;
  v_named := s;
  v_named.attempt_id := a.id;
  v_why := case
    when a.id is null then 'it has no such attempt'
    when s.state <> 'failed' then 'only a failed job can adopt a result'
    when a.number <> s.number then 'a later attempt was made'
    when a.closed_as <> 'timed_out' then 'the attempt was not lost'
    when a.reported_as is distinct from 'completed' then 'no success of the attempt is kept'
    when a.verdict_reason is distinct from 'job_failed' then format('its result was rejected for another reason: %s', a.verdict_reason)
    when s.failure_class = 'deadline' then 'its deadline had passed'
    when s.unknown_effect then format('what became of its effect %s is unknown', unknown_effects(p_job))
    when s.holds and keeps_resources(s, true) is not null then 'another attempt has taken its resource since'
    else artifacts_problem(v_named, a.result) end;
  if v_why is not null then
    return jsonb_build_object('verdict', 'refused', 'why', v_why, 'state', s.state);
  end if;
  update job_state x set accepted_attempt_id = a.id where x.job_id = p_job;
  d.state := 'succeeded';
  d.reason := p_reason;
  perform move_job(s, d, 'adopted', a.id, t, jsonb_build_object('by', p_by, 'login', session_user, 'request', p_request));
  return answered(p_request, p_job, 'jobs adopt', v_arguments, '{"verdict": "adopted", "state": "succeeded"}', p_by, t);
end $$;
