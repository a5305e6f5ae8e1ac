-- Rings jobs that were parked because their queue was paused and are so no longer, at most p_limit of them, of one queue or
-- (nulls) of any; a job that is past its deadline ends, one whose type is paused stays parked for that. Answers as `unpark`.
-- The scheduler calls it at every tick.
create or replace function unpark_queue(p_namespace text, p_queue text, p_limit integer)
returns table (rung integer, taken integer)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  k parked_queue;
  s job_state;
  j job;
  d decision;
  t timestamptz := clock();
begin
  perform require_read_committed();
  rung := 0; taken := 0;
  if p_limit > 0 then
    perform end_queue_pauses(p_namespace, p_queue, t);
  end if;
  for k in
    with recursive queues as (
      (select x.namespace, x.queue from parked_queue x
        where p_namespace is null or (x.namespace = p_namespace and x.queue = p_queue) order by x.namespace, x.queue limit 1)
      union all
      select n.namespace, n.queue from queues y cross join lateral (
        select x.namespace, x.queue from parked_queue x
          where p_namespace is null and (x.namespace, x.queue) > (y.namespace, y.queue) order by x.namespace, x.queue limit 1) n
    )
    select o.* from queues y cross join lateral (
        select x.* from parked_queue x where x.namespace = y.namespace and x.queue = y.queue order by x.job_id limit p_limit) o
      where queue_pause_of(y.namespace, y.queue) is null
      limit p_limit
  loop
    select * into s from job_state x where x.job_id = k.job_id for update skip locked;
    continue when not found and exists (select from job_state x where x.job_id = k.job_id);
    if s.state = 'queued' and s.waiting = 'pause' then
      t := clock();
      select * into j from job x where x.id = k.job_id;
      d := decide(s, j, 'waiting', '{}', t);
      if d.state <> 'queued' then
        d := end_waiting(s, j, t);
      elsif pause_of(j.namespace, j.type) is not null then
        update job_state x set wait_detail = pause_of(j.namespace, j.type) where x.job_id = s.job_id;
        insert into parked (namespace, type, job_id) values (j.namespace, j.type, s.job_id) on conflict do nothing;
      else
        perform move_job(s, d, 'resumed', null, t, null);
      end if;
      rung := rung + 1;
    end if;
    delete from parked_queue x where (x.namespace, x.queue, x.job_id) = (k.namespace, k.queue, k.job_id);
    taken := taken + 1;
  end loop;
  return next;
end $$;
