-- A person decides a review. p_id is the review's or the job's id, p_version that of the record it was decided on.
-- p_decision: happened (p_reference says what proves it, p_result is the job's result if one can be given) | retry (it did
-- not happen) | give_up. Verdicts: decided (the job's `state`, and `until` it waits) | closed (`closed` says who or what was
-- faster) | moved (the record is another one since: `version`) | too_large (the result, by its type's `limit`)
-- | request_reused | no_review (the job never had one) | unknown. It raises for a result that names an artifact which is not ready.
-- Retry gives the last attempt's late success a chance until the next claim, and runs once more even if every attempt is
-- used; a cancel or a deadline that has passed meanwhile is obeyed instead (rule R8).
create or replace function review_resolve(
  p_id uuid, p_request uuid, p_version bigint, p_decision text, p_by text, p_reason text, p_reference text, p_result text,
  p_checked boolean)
returns jsonb language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  v review := review_of(p_id);
  v_result jsonb := p_result::jsonb;
  v_arguments jsonb := jsonb_build_object('decision', p_decision, 'reference', p_reference, 'result', v_result);
  v_answer jsonb;
  v_problem text;
  s job_state;
  j job;
  d decision;
  t timestamptz;
begin
  perform require_read_committed();
  if v.id is null then
    return jsonb_build_object('verdict', case when exists (select from job_state x where x.job_id = p_id) then 'no_review' else 'unknown' end);
  end if;
  select * into s from job_state x where x.job_id = v.job_id for update;
  if not found then
    return '{"verdict": "unknown"}';
  end if;
  t := clock();
  v_answer := asked_before(p_request, v.job_id, 'review resolve', v_arguments);
  if v_answer is not null then
    return v_answer;
  end if;
  select * into v from review x where x.id = v.id;
  v_answer := jsonb_build_object('review', v.id, 'job', v.job_id, 'state', s.state);
  if v.closed_at is not null then
    return v_answer || jsonb_build_object('verdict', 'closed', 'closed', review_end(v));
  end if;
  if p_version is distinct from job_version(v.job_id) then
    return v_answer || jsonb_build_object('verdict', 'moved', 'version', job_version(v.job_id)::text);
  end if;
  select * into j from job x where x.id = v.job_id;
  if octet_length(p_result) > j.result_limit then
    return v_answer || jsonb_build_object('verdict', 'too_large', 'size', octet_length(p_result), 'limit', j.result_limit);
  end if;
  v_problem := artifacts_problem(s, v_result);
  if v_problem is not null then
    raise exception 'the result given to job % cannot be accepted: %', v.job_id, v_problem using errcode = 'invalid_parameter_value';
  end if;

  case p_decision
    when 'happened' then
      d.state := 'succeeded';
      d.reason := p_reason;
      perform effects_decided(s, 'happened', 'review', p_reference, t);
      update job_state x set accepted_review_id = v.id where x.job_id = s.job_id;
      s.attempt_id := null;  -- finished for good: what the attempt still says is rejected, and changes no row
    when 'retry' then
      perform effects_decided(s, 'did_not_happen', 'review', p_reason, t);
      -- The elapsed time begins anew, as with a replay: the time in review must not eat it.
      s.granted := greatest(coalesce(s.granted, j.retry_attempts), s.charged - s.forgiven + 1);
      update job_state x set granted = s.granted, first_claimed_at = null where x.job_id = s.job_id;
      d := decide(s, j, 'waiting', '{}', t);
      if d.state = 'queued' then
        d.reason := p_reason;
      end if;
    when 'give_up' then
      d.state := 'failed';
      d.failure_class := 'unsafe';
      d.reason := format('%s gave up: %s', p_by, p_reason);
      s.attempt_id := null;
  end case;
  update review x set closed_at = t, closed_as = d.state, closed_by = p_by, decision = p_decision, login = session_user,
      reason = p_reason, reference = p_reference, result = v_result, result_checked = case when p_result is not null then p_checked end
    where x.id = v.id;
  perform move_job(s, d, 'review_decided', v.attempt_id, t, jsonb_strip_nulls(jsonb_build_object(
    'review', v.id, 'decision', p_decision, 'by', p_by, 'login', session_user, 'why', p_reason, 'reference', p_reference,
    'request', p_request)));
  return answered(p_request, v.job_id, 'review resolve', v_arguments, v_answer || jsonb_build_object(
    'verdict', 'decided', 'decision', p_decision, 'state', d.state, 'failure_class', d.failure_class), p_by, t);
end $$;
