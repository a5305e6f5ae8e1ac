-- Ends the waiting of a locked queued job: rung and claimable, or ended by a deadline or exhaustion.
create or replace function end_waiting(s job_state, j job, t timestamptz)
returns decision language plpgsql volatile as $$
declare
  d decision := decide(s, j, 'waiting', '{}', t);
begin
  if d.failure_class = 'policy' then
    return fail_unplaceable(s, unplaced_report(s.job_id, s.waiting, s.wait_detail), t);
  end if;
  perform move_job(s, d, case when d.state = 'queued' then 'became_due' when d.state = 'cancelled' then 'cancelled'
    when d.failure_class = 'deadline' then 'deadline_passed' else 'exhausted' end, null, t, null);
  return d;
end $$;
