-- Rings as many of those who wait for a resource as it has free places, in their order; answers how many. One who was rung and
-- has not come yet counts as coming for 5 seconds; one who needs another resource, too, that is not free for it, keeps its turn
-- and is rung when that one is. A ring is a hint: looked at without locks, decided by the claim. A waiter whose row is busy
-- just now, or who waits no more and is still in the line, is left to the scheduler's next tick.
create or replace function wake(p_namespace text, p_name text, t timestamptz) returns integer language plpgsql volatile as $$
declare
  w waiter;
  s job_state;
  j job;
  d decision;
  v_limit integer;
  v_rung integer := 0;
  v_coming integer := held_places(p_namespace, p_name);
begin
  for w in select * from waiter x where x.namespace = p_namespace and x.name = p_name order by x.since, x.job_id loop
    continue when is_late(w, t);
    select * into j from job x where x.id = w.job_id;
    v_limit := least(v_limit, (select (x ->> 'limit')::integer from jsonb_array_elements(j.resources) x where x ->> 'name' = p_name));
    exit when v_coming >= v_limit;
    v_coming := v_coming + 1;
    continue when w.rung_at is not null;
    select * into s from job_state x where x.job_id = w.job_id for update skip locked;
    continue when not found or s.state <> 'queued' or s.waiting not in ('resource', 'delivery');
    continue when exists (
      select from jsonb_array_elements(j.resources) x where x ->> 'name' <> p_name and not has_turn(
        p_namespace, x ->> 'name', w.job_id, w.since, (x ->> 'limit')::integer, held_places(p_namespace, x ->> 'name'), t));
    if s.waiting = 'resource' then
      d := decide(s, j, 'waiting', '{}', t);
      continue when d.state <> 'queued';  -- `due` ends it
      d.reason := format('resource %s is free', p_name);
      perform move_job(s, d, 'resource_free', null, t, null);
    end if;
    -- One who waits for a delivery already comes by itself; if not soon, the next is rung.
    update waiter x set rung_at = t where x.job_id = w.job_id;
    v_rung := v_rung + 1;
  end loop;
  return v_rung;
end $$;
