-- Rule R1 on the locked state row: this attempt and this fencing number, no finished state, no report yet.
create or replace function holds_place(s job_state, p_attempt uuid, p_fencing_number bigint) returns boolean
language sql immutable as $$
  select coalesce(s.attempt_id = p_attempt and s.fencing_number = p_fencing_number and not s.reported
    and s.state in ('running', 'queued', 'review'), false)
$$;
