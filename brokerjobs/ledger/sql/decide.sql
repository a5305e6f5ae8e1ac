-- Where a job goes when an attempt ends without an accepted result, or when its waiting ends (rule R8).
-- p_ended: failed | lost | deadline (it passed while the attempt ran) | released | refused (a result refused by deadline or
-- cancel) | waiting (no attempt is ending).
-- p_failure: {class, classified, retry_after (seconds), why, until, type, message}.
create or replace function decide(s job_state, j job, p_ended text, p_failure jsonb, t timestamptz)
returns decision language plpgsql volatile as $$
declare
  d decision;
  -- Its handler could not go on without knowing what became of an effect: by now that is known.
  v_known boolean := p_failure ->> 'type' = 'EffectUnknown' and not s.unknown_effect;
  v_class text := case when v_known then 'temporary' else p_failure ->> 'class' end;
  v_classified boolean := coalesce(v_known or (p_failure ->> 'classified')::boolean, false);
  v_why text := p_failure ->> 'why';
  v_retry_after double precision := p_failure ->> 'retry_after';
  v_elapsed_end timestamptz := s.first_claimed_at + j.retry_elapsed;
  v_used integer := s.charged - s.forgiven;
  v_granted integer := coalesce(s.granted, j.retry_attempts);
  v_spent boolean;
begin
  if p_ended <> 'waiting' and s.unknown_effect then
    d.state := 'review';
    d.reason := format('what became of its effect %s is unknown, and it may not be repeated', unknown_effects(s.job_id));
    return d;
  end if;
  if p_ended <> 'waiting' and (v_class = 'unsafe' or (not j.repeatable and s.started and not v_classified)) then
    d.state := 'review';
    d.reason := case when v_class = 'unsafe' and v_classified then 'the handler said that its outcome is unknown'
      else 'the attempt had started, its outcome is unknown and it is not repeatable' end;
    return d;
  end if;
  if s.cancel is not null then
    d.state := 'cancelled';
    d.reason := s.cancel ->> 'reason';
    return d;
  end if;
  if s.deadline <= t then
    d.state := 'failed';
    d.failure_class := 'deadline';
    d.reason := 'the deadline passed';
    return d;
  end if;
  if p_ended = 'waiting' and s.waiting in ('placement', 'resource') and s.unplaced_since + j.placement_deadline <= t then
    d.state := 'failed';
    d.failure_class := 'policy';
    d.reason := 'unplaceable';
    return d;
  end if;
  if v_class in ('invalid', 'policy') and p_ended = 'failed' then
    d.state := 'failed';
    d.failure_class := v_class;
    d.reason := p_failure ->> 'message';
    return d;
  end if;

  if p_ended = 'released' and v_why = 'snooze' then
    d.waiting := 'schedule';
    d.wait_until := greatest(t, least((p_failure ->> 'until')::timestamptz, t + interval '365 days'));
  elsif p_ended = 'released' and v_why = 'not_here' then
    d.waiting := 'placement';
    d.wait_until := t + least(make_interval(secs => least(30, power(2, least(s.uncharged, 10)))), j.placement_deadline);
  elsif p_ended = 'released' then
    d.waiting := 'delivery';
  elsif p_ended = 'waiting' then
    d.waiting := 'delivery';
    -- How often it met a worker without the handler: the next one that lacks it makes the job wait longer.
    d.wait_detail := case when s.waiting = 'placement' and s.wait_detail ? 'refusals' then s.wait_detail end;
  else
    d.waiting := 'retry';
    d.wait_until := t + case when v_retry_after is null then retry_delay(j, v_used) * stretch_of(s, j, v_used, t)
      else make_interval(secs => greatest(0, least(v_retry_after, 365 * 86400))) end;
  end if;

  -- A waiting job is spent only if its last attempt was lost: every other road was refused before it began to wait.
  v_spent := case when p_ended = 'waiting' then s.waiting = 'retry' and s.wait_detail ? 'last'
    else v_used >= v_granted or coalesce(d.wait_until, t) > v_elapsed_end end;
  if v_spent and p_ended = 'lost' then
    -- Its success may still arrive: nobody can claim the job, and `due` ends it one lease later.
    d.wait_until := t + j.lease;
  elsif v_spent then
    d.state := 'failed';
    d.failure_class := 'exhausted';
    d.waiting := null;
    d.wait_until := null;
    d.reason := case when v_used >= v_granted
      then format('%s of %s attempts used', v_used, v_granted)
      else format('no retry fits into %s after the first claim', j.retry_elapsed) end;
    return d;
  end if;
  d.state := 'queued';
  d.reason := coalesce(v_why, v_class, p_ended);
  d.wait_detail := case when d.waiting = 'delivery' then d.wait_detail else jsonb_strip_nulls(jsonb_build_object(
    'after', case p_ended when 'lost' then 'lease expired' else coalesce(p_failure ->> 'type', v_why) end,
    'not_qualified', case when v_why = 'not_here' then j.type end,
    'message', left(p_failure ->> 'message', 200), 'attempt', s.number, 'last', case when v_spent then true end)) end;
  return d;
end $$;
