-- Lets jobs that were parked for want of a qualified worker be rung at the next tick of the scheduler, at most p_limit of the
-- types that a worker handles which has just come: it may be the one. Those that are due first come first.
create or replace function wake_placement(p_namespace text, p_types text[], p_limit integer) returns integer
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  with parked as (
    select s.job_id from job_state s join job j on j.id = s.job_id
      where s.state = 'queued' and s.wait_until is not null and s.waiting = 'placement' and j.namespace = p_namespace and j.type = any (p_types)
      order by s.wait_until limit p_limit for update of s skip locked
  ), woken as (
    update job_state x set wait_until = clock() from parked p where x.job_id = p.job_id and x.wait_until > clock() returning 1
  )
  select count(*)::integer from woken
$$;
