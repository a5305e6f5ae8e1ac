-- The newest probe of each route that came back and by now speaks for all workers: whatever was rung before it is with
-- none of them. They may hold what has left the queue, so each one that lives must have said since that its oldest
-- unclaimed delivery is younger than the probe's return; after p_hand_back each of them has given such deliveries back.
create or replace function probes_to_settle(t timestamptz, p_hand_back interval) returns setof uuid
language sql stable as $$
  with living as materialized (select w.* from live_workers(t) w)
  select distinct on (p.route) p.ticket from probe p
    where p.returned_at is not null and p.settled_at is null
      and (p.returned_at <= t - p_hand_back or not exists (
        select from living w where p.route = any (w.routes)
          and not (w.probed and w.heartbeat_at > p.returned_at and coalesce(w.oldest_at > p.returned_at, true))))
    order by p.route, p.made_at desc
$$;
