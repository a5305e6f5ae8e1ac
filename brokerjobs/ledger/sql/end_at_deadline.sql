-- Ends the running attempt of a locked state row whose job is past its deadline (design of failures: stop and record). The
-- attempt is closed without waiting for its worker, which the next renewal tells; what it reports then is kept and rejected.
create or replace function end_at_deadline(s job_state, j job, p_by text, t timestamptz)
returns decision language plpgsql volatile as $$
declare
  d decision := decide(s, j, 'deadline', '{"class": "temporary"}', t);
begin
  update attempt a set closed_at = t, closed_as = 'timed_out', closed_by = p_by, closed_why = 'deadline',
      lease_last_until = s.lease_until, safe_to_retry = safe_to_retry(s, j, d, '{}')
    where a.id = s.attempt_id and a.closed_at is null;
  perform move_job(s, d, 'deadline_passed', s.attempt_id, t, jsonb_build_object('by', p_by));
  if d.state = 'review' then
    update job_state x set deadline_noted = true where x.job_id = s.job_id;
  end if;
  return d;
end $$;
