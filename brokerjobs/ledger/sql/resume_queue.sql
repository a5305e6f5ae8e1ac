-- Ends the pause of a queue: {verdict: resumed | not_paused | unknown_queue | request_reused, by, reason, since}. Whoever asks
-- rings the parked jobs by `unpark_queue`; if he does not, the scheduler does. Asked again with the same request id it answers
-- the same (rule R7), also if the queue was paused once more since.
create or replace function resume_queue(p_request uuid, p_namespace text, p_queue text, p_by text, p_reason text) returns jsonb
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  p queue_pause;
  v_before boolean := false;
begin
  if coalesce(btrim(p_by), '') = '' then
    raise exception 'a resume says who' using errcode = 'invalid_parameter_value';
  end if;
  select * into p from queue_pause x where x.resume_id = p_request;
  v_before := found;
  if v_before and (p.namespace, p.queue, p.resumed_by, p.resumed_why) is distinct from (p_namespace, p_queue, p_by, p_reason) then
    return jsonb_build_object('verdict', 'request_reused');
  end if;
  if not v_before then
    perform end_queue_pauses(p_namespace, p_queue, clock());
    update queue_pause x set resumed_at = clock(), resumed_by = p_by, resumed_login = session_user, resumed_why = p_reason, resume_id = p_request
      where x.namespace = p_namespace and x.queue = p_queue and x.resumed_at is null returning * into p;
    if not found then
      return jsonb_build_object('verdict', case when exists (
        select from route r where r.namespace = p_namespace and r.queue = p_queue) then 'not_paused' else 'unknown_queue' end);
    end if;
  end if;
  return jsonb_build_object('verdict', 'resumed', 'by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at),
    'repeated', v_before);
end $$;
