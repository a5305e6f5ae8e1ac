-- Takes what a reconciler found out about a review that it was given. decided (the job's `state`) | too_early (a call that was
-- granted may still have been under way when it was asked: asked again when its time limit has passed) | noted (still unknown: asked again later, each
-- time later, an hour at most) | closed (a person or a fact was faster) | superseded (another one asks) | unknown.
-- p_finding: {as: happened, result, reference} | {as: did_not_happen, why} | {as: unknown, why, error}.
create or replace function review_found(p_review uuid, p_asked integer, p_by text, p_finding jsonb)
returns table (verdict text, state text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
#variable_conflict use_column
declare
  v review;
  s job_state;
  j job;
  d decision;
  t timestamptz;
  v_as text := p_finding ->> 'as';
  v_problem text;
  v_believed_at timestamptz;
begin
  perform require_read_committed();
  select * into v from review x where x.id = p_review;
  select * into s from job_state x where x.job_id = v.job_id for update;
  if not found then
    return query select 'unknown', null::text; return;
  end if;
  t := clock();
  select * into v from review x where x.id = p_review;  -- now that the row is held
  if v.closed_at is not null or v.asked <> p_asked then
    return query select case when v.closed_at is not null then 'closed' else 'superseded' end, s.state; return;
  end if;
  select * into j from job x where x.id = v.job_id;

  v_problem := case v_as when 'happened' then artifacts_problem(s, p_finding -> 'result') end;
  if v_problem is not null then
    v_as := 'unknown';  -- it happened, but what it says cannot be the result: a person is to look at that
    p_finding := jsonb_build_object('as', v_as, 'why', v_problem);
  end if;
  if v_as = 'did_not_happen' then
    select greatest(
        -- One that asked again, since the answer was lost, calls later than at its intent: before it reported its end.
        (select max(greatest(i.at, case when n.closed_as <> 'timed_out' then n.closed_at end) + i.time_limit)
          from effect_intent i join effect e on (e.job_id, e.name, e.try) = (i.job_id, i.name, i.try)
            left join attempt n on n.id = i.attempt_id
          where i.job_id = s.job_id and is_unknown(e)),
        case when not j.repeatable then a.claimed_at + j.time_limit end)
      into v_believed_at from attempt a where a.id = v.attempt_id;
    -- Whoever asked before then may have looked before the call arrived, however late it is said.
    if v_believed_at > coalesce(v.ask_at, t) then
      update review x set asking_until = null, ask_at = v_believed_at where x.id = v.id;
      perform note(s.job_id, v.attempt_id, 'reconciler_too_early', s.state, t, jsonb_build_object(
        'review', v.id, 'by', p_by, 'believed_at', rfc3339(v_believed_at)));
      return query select 'too_early', s.state; return;
    end if;
  elsif v_as = 'unknown' then
    update review x set asking_until = null, ask_at = t + make_interval(secs => least(3600, 10 * power(2, least(v.asked - 1, 10))))
      where x.id = v.id;
    perform note(s.job_id, v.attempt_id, 'reconciler_unknown', s.state, t, jsonb_strip_nulls(jsonb_build_object(
      'review', v.id, 'by', p_by, 'asked', v.asked, 'why', left(p_finding ->> 'why', 500), 'error', left(p_finding ->> 'error', 200))));
    return query select 'noted', s.state; return;
  end if;

  perform effects_decided(s, v_as, 'reconciler', coalesce(p_finding ->> 'reference', p_finding ->> 'why'), t);
  s.unknown_effect := false;
  if v_as = 'happened' then
    d.state := 'succeeded';
    d.reason := 'a reconciler found out that it happened';
    s.attempt_id := null;  -- finished for good: what the attempt still says is rejected, and changes no row
    update job_state x set accepted_review_id = v.id where x.job_id = s.job_id;
    update review x set closed_at = t, closed_as = d.state, closed_by = p_by, decision = 'happened', login = session_user,
        reason = d.reason, reference = p_finding ->> 'reference', result = p_finding -> 'result', result_checked = true
      where x.id = v.id;
  else
    d := decide(s, j, 'failed', '{"class": "temporary", "classified": true, "type": "DidNotHappen"}', t);
    update review x set closed_at = t, closed_as = d.state, closed_by = p_by where x.id = v.id;
  end if;
  perform move_job(s, d, 'reconciled', v.attempt_id, t, jsonb_strip_nulls(jsonb_build_object(
    'review', v.id, 'found', v_as, 'by', p_by, 'reference', p_finding ->> 'reference', 'why', left(p_finding ->> 'why', 500))));
  return query select 'decided', d.state;
end $$;
