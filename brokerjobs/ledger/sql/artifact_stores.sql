-- Each store that artifacts or orphans are recorded in, twenty at most: how many objects it should have; how many of them have
-- been due to be looked at for over an hour (nobody sweeps it), or recorded as to be removed for as long and are not gone; how
-- many orphans. Stores are found one after the other by their indexes, and counts end at 10 000.
create or replace function artifact_stores(t timestamptz) returns jsonb
language plpgsql stable as $$
declare
  v_store text := '';
  v_stores jsonb := '[]';
begin
  for i in 1 .. 20 loop
    v_store := least(
      (select a.store from artifact a where a.look_at is not null and a.store > v_store order by a.store limit 1),
      (select o.store from artifact_orphan o where o.removed_at is null and o.store > v_store order by o.store limit 1));
    exit when v_store is null;
    v_stores := v_stores || (select jsonb_build_object('store', v_store,
        'artifacts', (select count(*) from (select from artifact a where a.store = v_store and a.look_at is not null limit 10000) x),
        'unswept', u.artifacts, 'unswept_seconds', date_part('epoch', t - u.since),
        'unremoved', r.artifacts, 'unremoved_seconds', date_part('epoch', t - r.since),
        'orphans', (select count(*) from (
          select from artifact_orphan o where o.store = v_store and o.removed_at is null limit 10000) x))
      from (select count(*) as artifacts, min(x.look_at) as since from (
          select a.look_at from artifact a where a.store = v_store and a.look_at < t - interval '1 hour' order by a.look_at limit 10000) x) u,
        (select count(*) as artifacts, min(x.removing_at) as since from (
          select a.removing_at from artifact a where a.store = v_store and a.removed_at is null and a.removing_at < t - interval '1 hour'
            order by a.removing_at limit 10000) x) r);
  end loop;
  return v_stores;
end $$;
