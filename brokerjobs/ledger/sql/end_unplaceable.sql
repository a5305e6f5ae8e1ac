-- Ends jobs whose placement deadline passed while no living worker could run them and their doorbell lay at the broker: it
-- counts from when that began, or from their last ring. Walks through the jobs that wait for a delivery, p_rows at a call, in
-- the order of their ids. Answers how many ended and the last job that it looked at, null at the end.
create or replace function end_unplaceable(p_after uuid, p_rows integer)
returns table (ended integer, last uuid)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_id uuid;
  s job_state;
  j job;
  y route_type;
  t timestamptz := clock();
  v_looked integer := 0;
  v_due uuid[];
begin
  perform require_read_committed();
  ended := 0;
  if p_rows <= 0 or not exists (select from route_type x where x.unplaceable_since is not null) then
    return next;
    return;
  end if;
  with looked as materialized (
    select x.job_id, x.rung_at from job_state x
      where x.state = 'queued' and x.waiting = 'delivery' and x.job_id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
      order by x.job_id limit p_rows
  )
  select count(*), max(l.job_id::text)::uuid,
      array_agg(l.job_id) filter (where greatest(u.unplaceable_since, coalesce(l.rung_at, k.submitted_at)) + k.placement_deadline <= t)
    into v_looked, last, v_due
    from looked l join job k on k.id = l.job_id left join route_type u on (u.route, u.type) = (k.route, k.type) and u.unplaceable_since is not null;
  foreach v_id in array coalesce(v_due, '{}') loop
    select * into s from job_state x where x.job_id = v_id for update skip locked;
    continue when not found or s.state <> 'queued' or s.waiting <> 'delivery';
    select * into j from job x where x.id = v_id;
    select * into y from route_type x where (x.route, x.type) = (j.route, j.type);
    t := clock();
    continue when y.unplaceable_since is null or greatest(y.unplaceable_since, coalesce(s.rung_at, j.submitted_at)) + j.placement_deadline > t;
    perform fail_unplaceable(s, y.report, t);
    ended := ended + 1;
  end loop;
  if v_looked < p_rows then
    last := null;
  end if;
  return next;
end $$;
