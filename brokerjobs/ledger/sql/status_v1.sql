-- Public: the state of one job as JSON, from any language; no row if the ledger knows no such job.
create or replace function status_v1(p_job uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select jsonb_build_object('job_id', s.job_id, 'state', s.state, 'waiting', z.waiting, 'wait_until', rfc3339(s.wait_until),
      'wait_detail', z.detail, 'attempts', s.number, 'past_deadline', s.finished_at is null and coalesce(s.deadline <= clock(), false), 'failure_class', s.failure_class, 'failure_reason', s.failure_reason,
      'result', result_of(s))
    from job_state s cross join lateral waits_for(s.job_id, s.waiting, s.wait_detail) z
    where s.job_id = p_job
$$;
