-- One artifact as JSON: what is known of it, where its object is, and until when.
create or replace function artifact_json(a artifact, s job_state) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'schema', 'brokerjobs.staged_artifact/1', 'id', a.id, 'job', a.job_id, 'attempt', a.attempt_id, 'number', a.number,
    'fencing_number', a.fencing_number::text, 'namespace', a.namespace, 'name', a.name, 'content_type', a.content_type,
    'state', a.state, 'visible', v.visible, 'size', a.size, 'sha256', a.sha256, 'store', a.store, 'path', a.path,
    'made_at', rfc3339(a.made_at), 'ready_at', rfc3339(a.ready_at), 'keep_for_seconds', extract(epoch from a.keep_for),
    'expires_at', case when v.visible and a.state in ('ready', 'hash_mismatch') then rfc3339(s.finished_at + a.keep_for) end,
    'acknowledged', acknowledgement_of(a), 'mismatch', a.mismatch, 'expired_at', rfc3339(a.expired_at),
    'removing', case when a.removing_at is not null then jsonb_build_object(
      'at', rfc3339(a.removing_at), 'why', a.removing_why, 'detail', a.removing_detail) end,
    'removed_at', rfc3339(a.removed_at))
  from (select a.ready_at is not null and artifact_is_visible(a, s) as visible) v
$$;
