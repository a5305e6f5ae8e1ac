-- Rings parked jobs whose types are paused no longer, at most p_limit of them, of one type or (nulls) of any; a job that is
-- past its deadline ends. Answers how many jobs were rung or ended, and how many rows it could take away: 0 at the end.
-- The scheduler calls it at every tick, so a resume that was interrupted, or a job that was parked while it ran, is no loss.
create or replace function unpark(p_namespace text, p_type text, p_limit integer)
returns table (rung integer, taken integer)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  k parked;
  s job_state;
  j job;
  d decision;
  t timestamptz;
begin
  perform require_read_committed();
  rung := 0; taken := 0;
  for k in
    with recursive types as (
      (select x.namespace, x.type from parked x
        where p_namespace is null or (x.namespace = p_namespace and x.type = p_type) order by x.namespace, x.type limit 1)
      union all
      select n.namespace, n.type from types y cross join lateral (
        select x.namespace, x.type from parked x
          where p_namespace is null and (x.namespace, x.type) > (y.namespace, y.type) order by x.namespace, x.type limit 1) n
    )
    select o.* from types y cross join lateral (
        select x.* from parked x where x.namespace = y.namespace and x.type = y.type order by x.job_id limit p_limit) o
      where not exists (select from pause p where p.namespace = y.namespace and p.type = y.type and p.resumed_at is null)
      limit p_limit
  loop
    select * into s from job_state x where x.job_id = k.job_id for update skip locked;
    if not found then
      if not exists (select from job_state x where x.job_id = k.job_id) then
        delete from parked x where (x.namespace, x.type, x.job_id) = (k.namespace, k.type, k.job_id);
        taken := taken + 1;
      end if;
      continue;
    end if;
    if s.state = 'queued' and s.waiting = 'pause' then
      t := clock();
      select * into j from job x where x.id = k.job_id;
      d := decide(s, j, 'waiting', '{}', t);
      if d.state = 'queued' then
        perform move_job(s, d, 'resumed', null, t, null);
      else
        d := end_waiting(s, j, t);
      end if;
      rung := rung + 1;
    end if;
    delete from parked x where (x.namespace, x.type, x.job_id) = (k.namespace, k.type, k.job_id);
    taken := taken + 1;
  end loop;
  return next;
end $$;
