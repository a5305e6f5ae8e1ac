-- Everything the ledger recorded about one job, as JSON; null if it knows no such job.
create or replace function record(p_job uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select jsonb_build_object(
    'schema', 'brokerjobs.job/1', 'id', j.id, 'namespace', j.namespace, 'type', j.type, 'route', j.route, 'state', s.state,
    'waiting', case when s.waiting is not null then jsonb_build_object(
      'for', z.waiting, 'until', rfc3339(s.wait_until), 'detail', z.detail, 'rung_at', rfc3339(s.rung_at),
      'past_deadline', s.deadline <= clock()) end,
    'key', j.key, 'submitted_by', j.submitted_by, 'login', j.login, 'tags', j.tags,
    'submitted_at', rfc3339(j.submitted_at), 'observed_submitted_at', rfc3339(j.observed_at),
    'not_before', rfc3339(j.not_before), 'deadline', rfc3339(s.deadline),
    'past_deadline', s.finished_at is null and coalesce(s.deadline <= clock(), false), 'traceparent', j.traceparent,
    'terms', jsonb_build_object('repeatable', j.repeatable, 'lease_seconds', extract(epoch from j.lease),
      'time_limit_seconds', extract(epoch from j.time_limit), 'retry', jsonb_build_object(
        'attempts', j.retry_attempts, 'elapsed_seconds', extract(epoch from j.retry_elapsed),
        'first_delay_seconds', extract(epoch from j.retry_first_delay), 'factor', j.retry_factor,
        'max_delay_seconds', extract(epoch from j.retry_max_delay))),
    'priority', j.priority, 'needs', coalesce(j.needs, '[]'), 'added_needs', coalesce(j.added_needs, '[]'), 'resources', coalesce(j.resources, '[]'),
    'payload', j.payload, 'payload_sha256', encode(j.payload_hash, 'hex'), 'payload_checked', j.payload_fingerprint is not null,
    'attempts', coalesce((select jsonb_agg(attempt_json(a, s) order by a.number) from attempt a where a.job_id = j.id), '[]'),
    'charged', s.charged, 'uncharged', s.uncharged, 'forgiven', s.forgiven, 'granted', coalesce(s.granted, j.retry_attempts), 'fencing_number', s.fencing_number::text,
    'cancel', s.cancel, 'finished_at', rfc3339(s.finished_at),
    'accepted_attempt', s.accepted_attempt_id, 'accepted_review', s.accepted_review_id, 'result', result_of(s),
    'failure', case when s.failure_class is not null then jsonb_build_object('class', s.failure_class, 'reason', s.failure_reason) end,
    'reviews', coalesce((select jsonb_agg(jsonb_build_object('id', r.id, 'attempt', r.attempt_id, 'cause', r.cause,
        'opened_at', rfc3339(r.opened_at), 'closed_at', rfc3339(r.closed_at), 'closed_as', r.closed_as, 'closed_by', r.closed_by,
        'known', r.detail, 'decision', r.decision, 'login', r.login, 'reason', r.reason, 'reference', r.reference,
        'result_given', r.result is not null, 'result_checked', r.result_checked)
        order by r.opened_at) from review r where r.job_id = j.id), '[]'),
    'effects', coalesce((select jsonb_agg(effect_json(f) order by f.made_at, f.name, f.try) from effect f where f.job_id = j.id), '[]'),
    'artifacts', coalesce((select jsonb_agg(artifact_json(f, s) order by f.number, f.ready_at, f.id) from artifact f where f.job_id = j.id), '[]'),
    'late_reports', coalesce((select jsonb_agg(jsonb_build_object('attempt', l.attempt_id, 'fencing_number', l.fencing_number::text,
        'received_at', rfc3339(l.received_at), 'observed_at', rfc3339(l.observed_at), 'as', l.reported_as, 'reason', l.reason,
        'result', l.result, 'failure', l.failure) order by l.id) from late_report l where l.job_id = j.id), '[]'),
    'events', coalesce((select jsonb_agg(jsonb_build_object('at', rfc3339(e.at), 'kind', e.kind, 'state', e.state,
        'attempt', e.attempt_id, 'detail', e.detail) order by e.seq)
        from (select x.seq, x.at, x.kind, x.state, x.attempt_id, x.detail from event x where x.job_id = j.id
          union select k.seq, k.at, k.kind, k.state, k.attempt_id, k.detail from event_kept k where k.job_id = j.id) e), '[]'))
  from job j join job_state s on s.job_id = j.id
    cross join lateral waits_for(s.job_id, s.waiting, s.wait_detail) z
    where j.id = p_job
$$;
