-- Takes a place of each resource that a locked queued job needs, for this attempt, or none: answers the attempt's fencing
-- number, larger than any that these resources have seen, 0 if it has to wait, null if another transaction is at one of them
-- (ask again). p_batch are the attempts of the same batch of claims, whose rows are not written yet.
-- All places of a resource are locked, without waiting, before anything is written: so claims of it come one after the other.
-- A place is free when the attempt that took it last is closed, or gone. Outcomes do not write places; what is closed stays
-- closed, so that attempts need no lock, but they are looked at by a statement that begins after the lock: the one that locks
-- would not see the attempt of a claim that committed meanwhile, and take its place for free.
create or replace function take_resources(s job_state, j job, p_attempt uuid, p_batch uuid[], p_number bigint, t timestamptz)
returns bigint language plpgsql volatile as $$
declare
  n record;
  v_number bigint := p_number;
  v_since timestamptz;
  v_places integer[];
  v_attempts uuid[];
  v_last bigint;
  v_held integer;
  v_free integer;
  g_name text[] := '{}';
  g_place integer[] := '{}';
begin
  select w.since into v_since from waiter w where w.job_id = s.job_id limit 1;
  for n in
    select x.need ->> 'name' as name, (x.need ->> 'limit')::integer as places
      from jsonb_array_elements(j.resources) with ordinality x (need, place) order by x.place
  loop
    select array_agg(r.place), array_agg(r.attempt_id), max(r.fencing_number) into v_places, v_attempts, v_last from (
      select * from resource x where x.namespace = j.namespace and x.name = n.name order by x.place for update skip locked) r;
    if coalesce(cardinality(v_places), 0) < (select count(*) from resource x where x.namespace = j.namespace and x.name = n.name) then
      return null;
    end if;
    select count(*) filter (where g.held), min(g.place) filter (where not g.held) into v_held, v_free
      from (select u.place, coalesce(u.attempt = any (p_batch), false)
              or exists (select from attempt a where a.id = u.attempt and a.closed_at is null) as held
          from unnest(v_places, v_attempts) u (place, attempt)) g;
    if v_free is null or not has_turn(j.namespace, n.name, s.job_id, v_since, n.places, v_held, t) then
      return 0;
    end if;
    v_number := greatest(v_number, v_last + 1);
    g_name := g_name || n.name; g_place := g_place || v_free;
  end loop;

  update resource x set job_id = s.job_id, attempt_id = p_attempt, fencing_number = v_number, taken_at = t
    from unnest(g_name, g_place) g (name, place)
    where x.namespace = j.namespace and x.name = g.name and x.place = g.place;
  if v_since is not null then
    delete from waiter w where w.job_id = s.job_id;
  end if;
  return v_number;
end $$;
