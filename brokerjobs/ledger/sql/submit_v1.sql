-- Public: submits one job in the caller's transaction, from any language and any driver.
-- options: {"id", "not_before", "deadline", "tags", "traceparent"}. Verdicts as for submit; options that are unknown or
-- cannot be read are `invalid`, so that the caller's transaction lives.
create or replace function submit_v1(
  namespace text, job_type text, payload jsonb, key text default null, submitted_by text default session_user,
  options jsonb default '{}')
returns table (verdict text, job_id uuid, detail jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
#variable_conflict use_variable
declare
  v_unknown text;
begin
  v_unknown := (select min(o) from jsonb_object_keys(options) o where o not in ('id', 'not_before', 'deadline', 'tags', 'traceparent'));
  if v_unknown is not null then
    return query select 'invalid', null::uuid,
      jsonb_build_object('problem', format('unknown option %s; known are deadline, id, not_before, tags, traceparent', v_unknown));
    return;
  end if;
  return query select s.verdict, s.job_id, s.detail from submit(
    namespace, job_type, array[coalesce((options ->> 'id')::uuid, make_uuid7(clock()))], array[payload::text], array[key],
    coalesce(submitted_by, session_user), array[(nullif(options -> 'tags', 'null'))::text],
    array[(options ->> 'not_before')::timestamptz], array[(options ->> 'deadline')::timestamptz],
    array[options ->> 'traceparent'], null, null, false) s;
exception when data_exception then
  return query select 'invalid', null::uuid, jsonb_build_object('problem', sqlerrm);
end $$;
