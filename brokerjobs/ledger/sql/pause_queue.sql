-- Pauses a queue, until a time, for a time, or until it is resumed (both null): {verdict: paused | already | unknown_queue | request_reused |
-- past, by, reason, since, until}. Jobs that run go on; those that are claimed from now on are parked. Asked again with the
-- same request id it answers the same (rule R7).
create or replace function pause_queue(
  p_request uuid, p_namespace text, p_queue text, p_by text, p_reason text, p_until timestamptz, p_for interval) returns jsonb
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  p queue_pause;
  v_made boolean;
  v_until timestamptz := coalesce(p_until, clock() + p_for);
begin
  if coalesce(btrim(p_reason), '') = '' or coalesce(btrim(p_by), '') = '' then
    raise exception 'a pause says who and why' using errcode = 'invalid_parameter_value';
  end if;
  if not exists (select from route r where r.namespace = p_namespace and r.queue = p_queue) then
    return jsonb_build_object('verdict', 'unknown_queue');
  end if;
  perform end_queue_pauses(p_namespace, p_queue, clock());
  select * into p from queue_pause x where x.id = p_request;
  if not found and v_until <= clock() then
    return jsonb_build_object('verdict', 'past', 'until', rfc3339(v_until));
  end if;
  insert into queue_pause (id, namespace, queue, paused_at, paused_by, login, reason, until)
    values (p_request, p_namespace, p_queue, clock(), p_by, session_user, p_reason, v_until) on conflict do nothing;
  v_made := found;
  select * into p from queue_pause x where x.id = p_request;
  if p.id is not null and (p.namespace, p.queue, p.paused_by, p.reason) is distinct from (p_namespace, p_queue, p_by, p_reason) then
    return jsonb_build_object('verdict', 'request_reused');
  end if;
  if p.id is not null then
    return jsonb_build_object('verdict', 'paused', 'by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at),
      'until', rfc3339(p.until), 'repeated', not v_made, 'resumed_at', rfc3339(p.resumed_at));
  end if;
  return jsonb_build_object('verdict', 'already') || coalesce(queue_pause_of(p_namespace, p_queue), '{}');
end $$;
