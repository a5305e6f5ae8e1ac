-- Gives up the running attempt of a locked state row whose lease is over. The row keeps naming the attempt:
-- its late success is accepted until somebody claims the job again.
create or replace function expire_attempt(s job_state, j job, p_by text, t timestamptz)
returns decision language plpgsql volatile as $$
declare
  d decision := decide(s, j, 'lost', '{"class": "temporary"}', t);
begin
  update attempt a set closed_at = t, closed_as = 'timed_out', closed_by = p_by, closed_why = 'lease expired',
      lease_last_until = s.lease_until, safe_to_retry = safe_to_retry(s, j, d, '{}')
    where a.id = s.attempt_id and a.closed_at is null;
  perform move_job(s, d, 'lease_expired', s.attempt_id, t, jsonb_build_object('lease_until', rfc3339(s.lease_until), 'by', p_by));
  return d;
end $$;
