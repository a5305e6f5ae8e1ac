-- Ends the pause of a job type: {verdict: resumed | not_paused | unknown_type | request_reused, by, reason, since}. Whoever
-- asks rings the parked jobs by `unpark`; if he does not, the scheduler does. Asked again with the same request id it
-- answers the same (rule R7), also if the type was paused once more since.
create or replace function resume_type(p_request uuid, p_namespace text, p_type text, p_by text, p_reason text) returns jsonb
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  p pause;
  v_before boolean := false;
begin
  if coalesce(btrim(p_by), '') = '' then
    raise exception 'a resume says who' using errcode = 'invalid_parameter_value';
  end if;
  select * into p from pause x where x.resume_id = p_request;
  v_before := found;
  if v_before and (p.namespace, p.type, p.resumed_by, p.resumed_why) is distinct from (p_namespace, p_type, p_by, p_reason) then
    return jsonb_build_object('verdict', 'request_reused');
  end if;
  if not v_before then
    update pause x set resumed_at = clock(), resumed_by = p_by, resumed_login = session_user, resumed_why = p_reason, resume_id = p_request
      where x.namespace = p_namespace and x.type = p_type and x.resumed_at is null returning * into p;
    if not found then
      return jsonb_build_object('verdict', case when exists (
        select from job_type y where y.namespace = p_namespace and y.name = p_type) then 'not_paused' else 'unknown_type' end);
    end if;
  end if;
  return jsonb_build_object('verdict', 'resumed', 'by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at),
    'repeated', v_before);
end $$;
