-- Gives unclaimed deliveries back: a new ring for every job that still waits for one; then they may be acknowledged.
-- Answers the number of rings; a busy job is rung too (a ring too many costs a message, never a job), and since nothing was
-- locked the event claims no state of the job.
create or replace function hand_back(p_worker_name text, p_jobs uuid[]) returns integer
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
declare
  v_rung integer;
begin
  with waiting as (
    select distinct x.job_id from job_state x where x.job_id = any (p_jobs) and x.state = 'queued' and x.waiting = 'delivery'
  ), rung as (
    insert into outbox (kind, job_id, made_at, hold_until) select 'doorbell', w.job_id, clock(), clock() from waiting w returning job_id
  ), noted as (
    insert into event (at, job_id, kind, state, detail)
      select clock(), r.job_id, 'handed_back', null, jsonb_build_object('worker', p_worker_name) from rung r returning 1
  )
  select count(*) into v_rung from noted;
  return v_rung;
end $$;
