-- Records a message that its worker rejects to quarantine, and why. If it names a job that waits for a delivery, that may
-- have been its doorbell: the job is rung again, three times an hour at most, whoever sends such messages.
-- Older code rejects probes, too: by that they have come back.
create or replace function quarantine(p_worker_name text, p_route text, p_reason text, p_ticket uuid, p_job uuid, p_digest text)
returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
declare
  t timestamptz;
begin
  insert into quarantine (at, worker, route, reason, ticket, job_id, digest)
    values (clock(), p_worker_name, left(p_route, 300), left(p_reason, 300), p_ticket, p_job, p_digest);
  perform probe_returned(p_worker_name, p_route, p_ticket);
  perform from job_state x where x.job_id = p_job and x.state = 'queued' and x.waiting = 'delivery' for update skip locked;
  t := clock();
  if found and not exists (select from outbox o where o.job_id = p_job and o.kind = 'doorbell')
      and (select count(*) from event e where e.job_id = p_job and e.at > t - interval '1 hour' and e.kind = 'rung_again'
        and e.detail ->> 'by' = 'quarantine') < 3 then
    insert into outbox (kind, job_id, made_at, hold_until) values ('doorbell', p_job, t, t);
    perform note(p_job, null, 'rung_again', 'queued', t, jsonb_build_object(
      'by', 'quarantine', 'worker', p_worker_name, 'route', left(p_route, 300), 'reason', left(p_reason, 300)));
  end if;
end $$;
