-- The scheduler's step: ends the waiting of jobs that are due, and jobs whose deadline passed, queued or running; on a
-- review, which time never closes, that is noted. At most p_limit of each kind.
create or replace function due(p_limit integer)
returns table (job_id uuid, state text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_id uuid;
  s job_state;
  j job;
  d decision;
  t timestamptz := clock();  -- a variable: no index can be searched for a volatile function
begin
  perform require_read_committed();
  for v_id in
    (select x.job_id from job_state x
      where x.state = 'queued' and x.wait_until is not null and x.wait_until <= t order by x.wait_until limit p_limit)
    union
    (select x.job_id from job_state x
      where x.deadline is not null and x.finished_at is null and not x.deadline_noted and x.deadline <= t
      order by x.deadline limit p_limit)
  loop
    select * into s from job_state x where x.job_id = v_id for update skip locked;
    continue when not found;
    t := clock();
    if s.state in ('running', 'review') then
      continue when s.deadline_noted or coalesce(s.deadline, 'infinity') > t;
      job_id := v_id; state := s.state;
      if s.state = 'running' then
        select * into j from job x where x.id = v_id;
        d := end_at_deadline(s, j, 'scheduler', t);
        state := d.state;
      else
        update job_state x set deadline_noted = true where x.job_id = v_id;
        perform note(s.job_id, s.attempt_id, 'deadline_passed', 'review', t, null);
      end if;
      return next; continue;
    end if;
    continue when s.state <> 'queued';
    continue when coalesce(s.wait_until, 'infinity') > t and coalesce(s.deadline, 'infinity') > t;
    select * into j from job x where x.id = v_id;
    d := end_waiting(s, j, t);
    job_id := v_id; state := d.state;
    return next;
  end loop;
  perform unpark(null, null, p_limit);
  perform unpark_queue(null, null, p_limit);
  perform wake_waiters(p_limit);
end $$;
