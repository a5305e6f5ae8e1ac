-- Marks messages as published: confirmed by the broker. Anything else stays and is taken again, and so does a message that
-- another process has in hand just now: at worst it is published twice.
create or replace function outbox_done(p_tickets uuid[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set enable_seqscan = off as $$
declare
  v_ticket uuid;
  v_kind text;
  v_job uuid;
begin
  foreach v_ticket in array p_tickets loop
    delete from outbox x where x.ticket = (select y.ticket from outbox y where y.ticket = v_ticket for update skip locked)
      returning x.kind, x.job_id into v_kind, v_job;
    continue when not found or v_kind <> 'doorbell';
    perform from job_state x where x.job_id = v_job and x.state = 'queued' for update skip locked;
    if found then
      update job_state x set rung_at = clock() where x.job_id = v_job;
    end if;
  end loop;
end $$;
