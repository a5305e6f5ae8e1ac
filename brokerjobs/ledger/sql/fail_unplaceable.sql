-- Ends a locked queued job as unplaceable, with the last report of why frozen into its event.
create or replace function fail_unplaceable(s job_state, p_report jsonb, t timestamptz) returns decision
language plpgsql volatile as $$
declare
  d decision;
begin
  d.state := 'failed';
  d.failure_class := 'policy';
  d.reason := 'unplaceable' || coalesce(': ' || (p_report ->> 'text'), '');
  perform move_job(s, d, 'unplaceable', null, t, jsonb_strip_nulls(jsonb_build_object('report', p_report)));
  return d;
end $$;
