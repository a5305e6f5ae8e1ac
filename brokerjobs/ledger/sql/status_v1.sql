-- Public: the state of one job as JSON, from any language; no row if the ledger knows no such job.
create or replace function status_v1(p_job uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select jsonb_build_object('job_id', s.job_id, 'state', s.state, 'waiting', case when z.pause is null then s.waiting else 'pause' end, 'wait_until', rfc3339(s.wait_until),
      'wait_detail', coalesce(z.pause, s.wait_detail), 'attempts', s.number, 'past_deadline', s.finished_at is null and coalesce(s.deadline <= clock(), false), 'failure_class', s.failure_class, 'failure_reason', s.failure_reason,
      'result', result_of(s))
    from job_state s cross join lateral (
      select case when s.waiting = 'delivery' then (select pause_of(j.namespace, j.type) from job j where j.id = s.job_id) end as pause) z
    where s.job_id = p_job
$$;
