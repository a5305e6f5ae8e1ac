-- Public: the state of one job as JSON, from any language; no row if the ledger knows no such job.
create or replace function status_v1(p_job uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select jsonb_build_object('job_id', s.job_id, 'state', s.state, 'waiting', s.waiting, 'wait_until', rfc3339(s.wait_until),
      'wait_detail', s.wait_detail, 'attempts', s.number, 'failure_class', s.failure_class, 'failure_reason', s.failure_reason,
      'result', result_of(s))
    from job_state s where s.job_id = p_job
$$;
