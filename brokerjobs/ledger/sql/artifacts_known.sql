-- What the ledger knows of objects that a look into a store has found: known (it is an artifact's) | removed (its row says
-- that it is gone: an upload that was paused has ended since, it is to be deleted again) | orphan (there is no row: recorded).
-- A row is written before the first byte of its object, so that an object which was seen has its row already.
create or replace function artifacts_known(p_store text, p_paths text[], p_sizes bigint[])
returns table (path text, verdict text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  a artifact;
  t timestamptz;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_paths) loop
    path := p_paths[i];
    -- By its id, the last part of its path: under whatever name its store was known, it is no orphan.
    select * into a from artifact x where x.path = p_paths[i] and x.id = (case
      when p_paths[i] ~ '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/|$)){3}' then split_part(p_paths[i], '/', 3) end)::uuid;
    t := clock();
    if a.id is not null then
      verdict := case when a.removed_at is not null and a.store = p_store then 'removed' else 'known' end;
      delete from artifact_orphan o where o.store = p_store and o.path_hash = sha256(convert_to(p_paths[i], 'UTF8'));
    else
      verdict := 'orphan';
      insert into artifact_orphan as o (store, path_hash, path, size, first_seen_at, last_seen_at)
        values (p_store, sha256(convert_to(p_paths[i], 'UTF8')), p_paths[i], p_sizes[i], t, t)
        on conflict (store, path_hash) do update set size = excluded.size, last_seen_at = t, removed_at = null,
          first_seen_at = case when o.removed_at is null then o.first_seen_at else t end;
    end if;
    return next;
  end loop;
end $$;
