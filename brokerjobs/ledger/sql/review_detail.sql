-- What is known when a review opens, and with it what is not: which attempt, whether and when it started, how it ended, and
-- the result that was refused, if it brought one. p_kind: the event that opens it.
create or replace function review_detail(s job_state, p_attempt uuid, p_kind text) returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object(
      'ended', p_kind, 'attempt', a.number, 'worker', a.worker, 'claimed_at', rfc3339(a.claimed_at),
      'started_at', rfc3339(coalesce(a.started_at, a.observed_started_at)),
      'error_type', a.failure ->> 'type', 'error', left(a.failure ->> 'message', 500), 'why', a.closed_why,
      'result_refused', a.verdict_reason))
    from attempt a where a.id = p_attempt
$$;
