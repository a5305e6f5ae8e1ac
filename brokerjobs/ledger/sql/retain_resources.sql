-- Removes resources that jobs which are being removed have named, if nobody has taken them for p_unused and nobody waits: each
-- with all its places, for the last one stands for all. One that is needed again is made again, by the next submission or by
-- the scheduler for whoever waits; its numbers begin anew then, and later ones are still larger by the clock.
create or replace function retain_resources(p_jobs uuid[], p_unused interval, t timestamptz) returns void language plpgsql volatile as $$
declare
  n record;
  v_places integer;
  v_unused integer;
begin
  for n in
    select distinct j.namespace, x ->> 'name' as name from job j cross join lateral jsonb_array_elements(j.resources) x where j.id = any (p_jobs)
  loop
    select count(*), count(*) filter (where coalesce(r.taken_at < t - p_unused, true)
        and not exists (select from job_state s where s.job_id = r.job_id and s.finished_at is null)) into v_places, v_unused
      from (select * from resource x where x.namespace = n.namespace and x.name = n.name for update skip locked) r;
    if v_unused = v_places and v_places = (select count(*) from resource x where x.namespace = n.namespace and x.name = n.name)
        and not exists (select from waiter w where w.namespace = n.namespace and w.name = n.name) then
      delete from resource x where x.namespace = n.namespace and x.name = n.name;
    end if;
  end loop;
end $$;
