-- Pauses a job type: {verdict: paused | already | unknown_type | request_reused, by, reason, since}. Jobs that run go on;
-- those that are claimed from now on are parked. Asked again with the same request id it answers the same (rule R7).
create or replace function pause_type(p_request uuid, p_namespace text, p_type text, p_by text, p_reason text) returns jsonb
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  p pause;
  v_made boolean;
begin
  if coalesce(btrim(p_reason), '') = '' or coalesce(btrim(p_by), '') = '' then
    raise exception 'a pause says who and why' using errcode = 'invalid_parameter_value';
  end if;
  if not exists (select from job_type y where y.namespace = p_namespace and y.name = p_type) then
    return jsonb_build_object('verdict', 'unknown_type');
  end if;
  insert into pause (id, namespace, type, paused_at, paused_by, login, reason)
    values (p_request, p_namespace, p_type, clock(), p_by, session_user, p_reason) on conflict do nothing;
  v_made := found;
  select * into p from pause x where x.id = p_request;
  if p.id is not null and (p.namespace, p.type, p.paused_by, p.reason) is distinct from (p_namespace, p_type, p_by, p_reason) then
    return jsonb_build_object('verdict', 'request_reused');
  end if;
  if p.id is not null then
    return jsonb_build_object('verdict', 'paused', 'by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at),
      'repeated', not v_made, 'resumed_at', rfc3339(p.resumed_at));
  end if;
  return jsonb_build_object('verdict', 'already') || coalesce(pause_of(p_namespace, p_type), '{}');
end $$;
