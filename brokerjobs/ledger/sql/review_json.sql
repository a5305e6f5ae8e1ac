-- One review as JSON, schema brokerjobs.review/1: what is known of the attempt (`known`, as it was when the review opened), what
-- has been noted since (a cancel, a deadline that passed, a late report), and the `version` that a decision names.
create or replace function review_json(v review) returns jsonb language sql stable as $$
  select jsonb_build_object(
      'schema', 'brokerjobs.review/1', 'id', v.id, 'job', v.job_id, 'namespace', j.namespace, 'type', j.type, 'key', j.key,
      'state', s.state, 'cause', v.cause, 'opened_at', rfc3339(v.opened_at), 'attempt', v.attempt_id, 'known', v.detail,
      'effects', open_effects(v.job_id),
      'cancel', s.cancel, 'deadline', rfc3339(s.deadline), 'past_deadline', coalesce(s.deadline <= clock(), false),
      'retry_ends_as', case when v.closed_at is null then case when s.cancel is not null then 'cancelled' when s.deadline <= clock() then 'failed' else 'queued' end end,
      'late_report', (select case when a.late or a.verdict = 'rejected' then jsonb_build_object('as', a.reported_as,
          'received_at', rfc3339(a.reported_at), 'verdict', a.verdict, 'reason', a.verdict_reason, 'result', a.result) end
        from attempt a where a.id = v.attempt_id),
      'closed', review_end(v), 'version', job_version(v.job_id)::text)
    from job j join job_state s on s.job_id = j.id where j.id = v.job_id
$$;
