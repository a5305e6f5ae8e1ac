-- Records a message that its worker rejects to quarantine, and why.
create or replace function quarantine(p_worker_name text, p_route text, p_reason text, p_ticket uuid, p_job uuid, p_digest text)
returns void language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  insert into quarantine (at, worker, route, reason, ticket, job_id, digest)
    values (clock(), p_worker_name, left(p_route, 300), left(p_reason, 300), p_ticket, p_job, p_digest)
$$;
