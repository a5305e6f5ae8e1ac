-- The review of a job that this very transaction has opened, for whoever is to tell of it: {review, job, namespace, type,
-- attempt, number, ended (the event that opened it), cause}; null if it has opened none. Asked in the statement that may open one.
create or replace function review_opening(p_job uuid) returns jsonb
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select jsonb_build_object(
      'review', r.id, 'job', r.job_id, 'namespace', j.namespace, 'type', j.type, 'attempt', r.attempt_id,
      'number', r.detail -> 'attempt', 'ended', r.detail ->> 'ended', 'cause', r.cause)
    from review r join job j on j.id = r.job_id
    where r.job_id = p_job and r.closed_at is null and r.xmin = pg_current_xact_id_if_assigned()::xid
$$;
