-- The scheduler's step: ends the waiting of jobs that are due, and queued jobs whose deadline passed; at most p_limit.
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
      where x.deadline is not null and x.finished_at is null and x.deadline <= t and x.state = 'queued'
      order by x.deadline limit p_limit)
  loop
    select * into s from job_state x where x.job_id = v_id for update skip locked;
    continue when not found or s.state <> 'queued';
    t := clock();
    continue when coalesce(s.wait_until, 'infinity') > t and coalesce(s.deadline, 'infinity') > t;
    select * into j from job x where x.id = v_id;
    d := end_waiting(s, j, t);
    job_id := v_id; state := d.state;
    return next;
  end loop;
end $$;
  perform unpark(null, null, p_limit);
