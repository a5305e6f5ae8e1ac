-- The scheduler's look at those who wait for resources: takes those out of the lines who wait no more, makes places that are
-- missing (retention takes unused ones away), and rings the next of every resource that is free. Without it a lost ring, or a waiter that was cancelled when its
-- turn had come, would strand the others. At most p_limit lines at a call, beginning anywhere: each has its turn in the course
-- of some ticks. Answers how many were rung.
create or replace function wake_waiters(p_limit integer) returns integer language plpgsql volatile as $$
declare
  n record;
  r record;
  v_start waiter;
  v_resources jsonb;
  v_rung integer := 0;
begin
  if p_limit <= 0 or not exists (select from waiter) then
    return 0;
  end if;
  -- Any line of some pages of the table, long or short, so that no order of names keeps one out for long.
  select x.namespace, x.name into v_start.namespace, v_start.name
    from (select distinct w.namespace, w.name from waiter w tablesample system (least(100, 100 * 8 * 8192.0 / greatest(pg_relation_size('waiter'), 1)))) x
    order by random() limit 1;
  for n in
    with recursive onward as (
      (select w.namespace, w.name from waiter w
        where (w.namespace, w.name) >= (coalesce(v_start.namespace, ''), coalesce(v_start.name, '')) order by w.namespace, w.name limit 1)
      union all
      select x.namespace, x.name from onward l cross join lateral (
        select w.namespace, w.name from waiter w where (w.namespace, w.name) > (l.namespace, l.name) order by w.namespace, w.name limit 1) x
    ), before as (
      (select w.namespace, w.name from waiter w
        where (w.namespace, w.name) < (v_start.namespace, v_start.name) order by w.namespace, w.name limit 1)
      union all
      select x.namespace, x.name from before l cross join lateral (
        select w.namespace, w.name from waiter w
          where (w.namespace, w.name) > (l.namespace, l.name) and (w.namespace, w.name) < (v_start.namespace, v_start.name)
          order by w.namespace, w.name limit 1) x
    )
    select * from (select * from onward union all select * from before) l limit p_limit
  loop
    delete from waiter w where w.job_id = any (array(
        select s.job_id from (select x.job_id from waiter x where x.namespace = n.namespace and x.name = n.name order by x.since, x.job_id limit 20) f
          join job_state s on s.job_id = f.job_id
          where s.state <> 'queued' or s.waiting not in ('resource', 'delivery') for update of s skip locked)
      || array(
        select f.job_id from (select x.job_id from waiter x where x.namespace = n.namespace and x.name = n.name order by x.since, x.job_id limit 20) f
          where not exists (select from job_state s where s.job_id = f.job_id)));
    select j.resources into v_resources
      from (select x.job_id from waiter x where x.namespace = n.namespace and x.name = n.name order by x.since, x.job_id limit 1) f
        join job j on j.id = f.job_id;
    for r in select x ->> 'name' as name, (x ->> 'limit')::integer as places from jsonb_array_elements(v_resources) x loop
      perform make_places(n.namespace, r.name, r.places);
    end loop;
    v_rung := v_rung + wake(n.namespace, n.name, clock());
  end loop;
  return v_rung;
end $$;
