-- Puts a job that fails just now into its group: type, failure class, and the error of its last attempt.
create or replace function bury(s job_state, d decision, t timestamptz) returns void language plpgsql volatile as $$
declare
  j job;
  a attempt;
  v_type text;
  v_message text;
begin
  select * into j from job x where x.id = s.job_id;
  select * into a from attempt x where x.job_id = s.job_id and x.number = s.number;
  v_type := coalesce(a.failure ->> 'type', case when a.closed_as = 'timed_out' then 'lease expired' end);
  v_message := without_particulars(coalesce(a.failure ->> 'message', d.reason, ''));
  insert into dead (job_id, group_id, namespace, type, failure_class, error_type, message, failed_at)
    values (s.job_id,
      left(encode(sha256(convert_to(jsonb_build_array(j.namespace, j.type, d.failure_class, v_type, v_message)::text, 'UTF8')), 'hex'), 12),
      j.namespace, j.type, d.failure_class, v_type, v_message, t);
end $$;
