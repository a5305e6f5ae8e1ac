-- Why an unknown effect, the deadline or a cancel request on the locked row refuses a result; null if nothing does (rule R1).
create or replace function refusal_of(s job_state, t timestamptz) returns text language sql immutable as $$
  select case when s.unknown_effect then 'unknown_effect' when s.deadline <= t then 'deadline' when s.cancel is not null then 'job_cancelled' end
$$;
