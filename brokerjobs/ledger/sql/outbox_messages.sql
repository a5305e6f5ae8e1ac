-- Takes messages of these kinds that nobody publishes just now, oldest transaction first, and holds them for ten seconds.
-- The last row (kind `mark`) carries in `mark` where the next scan may start: the xmin of a snapshot taken before this
-- scan, or the oldest row still here. A transaction id, never a sequence: rows that commit late are not passed.
-- A message about a state that its job has left meanwhile would tell of what is not so: it is dropped.
create or replace function outbox_messages(p_from xid8, p_limit integer, p_kinds text[])
returns table (kind text, ticket uuid, job_id uuid, namespace text, type text, route text, traceparent text, body text, mark xid8)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  o outbox;
  j job;
  t timestamptz := clock();
  v_xmin xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
  for o in
    select * from outbox x where x.xid >= p_from and x.hold_until <= t and x.kind = any (p_kinds) order by x.xid limit p_limit for update skip locked
  loop
    select * into j from job x where x.id = o.job_id;
    if not found then
      delete from outbox x where x.ticket = o.ticket;  -- its job is gone, and the row would keep the mark back for ever
      continue;
    end if;
    if o.kind <> 'doorbell' and not exists (select from job_state x where x.job_id = o.job_id
        and x.state = case o.kind when 'dead' then 'failed' else 'review' end) then
      delete from outbox x where x.ticket = o.ticket;
      continue;
    end if;
    update outbox x set hold_until = t + interval '10 seconds', taken = x.taken + 1 where x.ticket = o.ticket;
    kind := o.kind; ticket := o.ticket; job_id := o.job_id; namespace := j.namespace; type := j.type; route := j.route;
    traceparent := j.traceparent;
    body := case when o.kind <> 'doorbell' then dead_letter(o.job_id) end;
    return next;
  end loop;
  kind := 'mark'; ticket := null; job_id := null; namespace := null; type := null; route := null; traceparent := null; body := null;
  mark := least(v_xmin, (select min(x.xid) from outbox x where x.xid >= p_from));
  return next;
end $$;
