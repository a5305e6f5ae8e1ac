-- Public: a consumer says that it has a safe copy, whose SHA-256 it has computed itself. The staged copy is removed after a
-- grace time; what was said stays. Said again it is the same answer, and what was said first stays, whoever says it.
-- acknowledged (`detail`: at, by, login, copied_to, repeated) | hash_differs (the recorded size and sha256: nothing is noted)
-- | not_ready (state) | not_accepted (state, job_state: it is not part of its job's result) | unknown.
create or replace function acknowledge_artifact_v1(
  p_id uuid, p_sha256 text, p_copied_to text, p_by text default session_user)
returns table (verdict text, detail jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  a artifact;
  s job_state;
  t timestamptz;
  v_before jsonb;
begin
  perform require_read_committed();
  if coalesce(p_copied_to, '') = '' or coalesce(p_by, '') = '' then
    raise exception 'an acknowledgement says where the copy is, and who has made it' using errcode = 'invalid_parameter_value';
  elsif greatest(char_length(p_copied_to), char_length(p_by)) > 4096 then
    raise exception 'where the copy is, and who has made it, may be 4096 characters each' using errcode = 'invalid_parameter_value';
  end if;
  select * into a from artifact x where x.id = p_id;
  if not found then
    verdict := 'unknown'; detail := '{}'; return next; return;
  end if;
  select * into s from job_state x where x.job_id = a.job_id;
  detail := jsonb_build_object('state', a.state, 'job_state', s.state);
  if a.ready_at is null then
    verdict := 'not_ready';
  elsif not artifact_is_visible(a, s) then
    verdict := 'not_accepted';
  elsif lower(p_sha256) is distinct from a.sha256 then
    verdict := 'hash_differs'; detail := jsonb_build_object('sha256', a.sha256, 'size', a.size);
  else
    verdict := 'acknowledged';
    -- Locked only now that it is to be written: a caller's transaction holds up no upload.
    select * into a from artifact x where x.id = p_id for update;
    t := clock();
    v_before := acknowledgement_of(a);
    if v_before is null then
      update artifact x set state = 'acknowledged', acknowledged_at = t, acknowledged_by = p_by, acknowledged_login = session_user,
          copied_to = p_copied_to, look_at = case when x.removed_at is null then t end
        where x.id = a.id returning * into a;
    end if;
    detail := acknowledgement_of(a) || jsonb_build_object('repeated', v_before is not null);
  end if;
  return next;
end $$;
