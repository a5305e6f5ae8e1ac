-- Parks a locked queued job whose type is paused: its doorbell can be acknowledged, a resume rings it. Parked already, it
-- stays as it is.
create or replace function park(s job_state, j job, p_worker_name text, t timestamptz) returns void
language plpgsql volatile as $$
declare
  v_pause jsonb := pause_of(j.namespace, j.type);
begin
  if s.waiting <> 'pause' then
    update job_state x set waiting = 'pause', wait_until = null, wait_detail = v_pause where x.job_id = s.job_id;
    insert into parked (namespace, type, job_id) values (j.namespace, j.type, s.job_id) on conflict do nothing;
    perform note(s.job_id, null, 'paused', 'queued', t, coalesce(v_pause, '{}') || jsonb_build_object('worker', p_worker_name));
  end if;
end $$;
