-- One attempt as JSON: contracts of the command line, version brokerjobs.job/1.
create or replace function attempt_json(a attempt, s job_state) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'id', a.id, 'number', a.number, 'fencing_number', a.fencing_number::text, 'state', shown_attempt(a), 'late', coalesce(a.late, false),
    'worker', a.worker, 'worker_id', a.worker_id, 'route', a.route, 'charged', a.charged,
    'delivery', jsonb_build_object('ticket', a.ticket, 'redelivered', a.redelivered, 'observed_at', rfc3339(a.delivered_at)),
    'claimed_at', rfc3339(a.claimed_at), 'started_at', rfc3339(a.started_at), 'observed_started_at', rfc3339(a.observed_started_at),
    'lease', jsonb_build_object('first_until', rfc3339(a.lease_first_until),
      'last_until', rfc3339(case when s.state = 'running' and s.attempt_id = a.id then s.lease_until else a.lease_last_until end),
      -- Null until a report or an acknowledgement has told them.
      'renewals', case when a.renewals > 0 or a.reported_at is not null and a.lease_last_until = a.lease_first_until then a.renewals end, 'smallest_margin_seconds', extract(epoch from a.smallest_margin),
      'longest_round_trip_seconds', extract(epoch from a.longest_round_trip)),
    'closed', case when a.closed_at is not null then jsonb_build_object(
      'at', rfc3339(a.closed_at), 'as', a.closed_as, 'by', a.closed_by, 'why', a.closed_why) end,
    'report', case when a.reported_at is not null then jsonb_build_object(
      'received_at', rfc3339(a.reported_at), 'observed_at', rfc3339(a.observed_reported_at), 'as', a.reported_as,
      'verdict', a.verdict, 'reason', a.verdict_reason, 'job_state', a.answer_state, 'retry_at', rfc3339(a.answer_until)) end,
    'capabilities', a.capabilities - '', 'safe_to_retry', a.safe_to_retry,
    'result', a.result, 'failure', a.failure, 'ack_sent_at', rfc3339(a.ack_sent_at), 'traceparent', a.traceparent)
$$;
