-- Marks messages as published: confirmed by the broker. Anything else stays and is taken again.
create or replace function outbox_done(p_tickets uuid[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  v_ticket uuid;
  v_job uuid;
begin
  foreach v_ticket in array p_tickets loop
    delete from outbox x where x.ticket = v_ticket and x.kind = 'doorbell' returning x.job_id into v_job;
    if not found then
      delete from outbox x where x.ticket = v_ticket;
      continue;
    end if;
    perform from job_state x where x.job_id = v_job and x.state = 'queued' for update skip locked;
    if found then
      update job_state x set rung_at = clock() where x.job_id = v_job;
    end if;
  end loop;
end $$;
