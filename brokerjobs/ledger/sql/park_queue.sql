-- Parks a locked queued job whose queue is paused, as `park` does for types.
create or replace function park_queue(s job_state, j job, p_queue text, p_worker_name text, t timestamptz) returns void
language plpgsql volatile as $$
declare
  v_pause jsonb := queue_pause_of(j.namespace, p_queue);
begin
  if s.waiting <> 'pause' then
    update job_state x set waiting = 'pause', wait_until = null, wait_detail = v_pause where x.job_id = s.job_id;
    insert into parked_queue (namespace, queue, job_id) values (j.namespace, p_queue, s.job_id) on conflict do nothing;
    perform note(s.job_id, null, 'paused', 'queued', t, coalesce(v_pause, '{}') || jsonb_build_object('worker', p_worker_name));
  end if;
end $$;
