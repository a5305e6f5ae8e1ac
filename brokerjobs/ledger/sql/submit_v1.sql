-- Public: submits one job in the caller's transaction, from any language and any driver.
-- options: {"id", "needs", "not_before", "deadline", "priority", "tags", "traceparent"}. Verdicts as for submit, each refusal with its
-- `problem` in words; what is unknown or cannot be read is `invalid`, so that the caller's transaction lives.
create or replace function submit_v1(
  namespace text, job_type text, payload jsonb, key text default null, submitted_by text default session_user,
  options jsonb default '{}')
returns table (verdict text, job_id uuid, detail jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
#variable_conflict use_variable
declare
  v_problem text;
begin
  v_problem := case
    when jsonb_typeof(options) <> 'object' then format('options are of type %s, not an object', jsonb_typeof(options))
    when length(submitted_by) > 255 or submitted_by = '' then 'submitted_by has 1 to 255 characters'
    else coalesce(
      (select format('unknown option %s; known are deadline, id, needs, not_before, priority, tags, traceparent', left(min(o), 80))
        from jsonb_object_keys(options) o where o not in ('id', 'needs', 'not_before', 'deadline', 'priority', 'tags', 'traceparent') having min(o) is not null),
      moment_problem(options, 'not_before'), moment_problem(options, 'deadline'), 'the payload: ' || json_problem(payload)) end;
  if v_problem is not null then
    return query select 'invalid', null::uuid, jsonb_build_object('problem', v_problem);
    return;
  end if;
  return query select s.verdict, s.job_id, case
      when s.verdict = 'unknown_type' then jsonb_build_object('problem', format(
        'the ledger does not know job type %s of namespace %s; register it with `brokerjobs setup module:app` or start a worker that has it',
        left(job_type, 101), left(namespace, 41)))
      when s.detail ->> 'problem' = 'payload_too_large' then s.detail || jsonb_build_object('problem', format(
        'the payload is %s bytes of JSON, %s over the limit of %s; keep large data in object storage and send its name, or in an artifact of an earlier job and send what ctx.artifacts.put returned there',
        s.detail ->> 'size', (s.detail ->> 'size')::integer - (s.detail ->> 'limit')::integer, s.detail ->> 'limit'))
      when s.verdict = 'conflict' then s.detail || jsonb_build_object('problem', format(
        'key %s was first used by %s for job %s with another payload; use another key for another job',
        key, s.detail ->> 'first_submitted_by', s.job_id))
      when s.verdict = 'key_in_flight' then jsonb_build_object('problem', format(
        'key %s is held by another open transaction; submit again when it has ended', key))
      else s.detail end
    from submit_jobs(
      namespace, job_type, array[coalesce((options ->> 'id')::uuid, make_uuid7(clock()))], array[payload::text], array[key],
      coalesce(submitted_by, session_user), array[(nullif(options -> 'tags', 'null'))::text],
      array[(options ->> 'not_before')::timestamptz], array[(options ->> 'deadline')::timestamptz],
      array[substring(options ->> 'traceparent', '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')], null, null, false, null, null,
      case when options ? 'priority' then array[options ->> 'priority'] end,
      case when options ? 'needs' then array[(nullif(options -> 'needs', 'null'))::text] end) s;
exception when data_exception then
  return query select 'invalid', null::uuid, jsonb_build_object('problem', sqlerrm);
end $$;
