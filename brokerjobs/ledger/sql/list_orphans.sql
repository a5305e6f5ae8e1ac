-- Objects without any row that are in a store, or in any, by store and when they were first seen; p_after_store, p_after_seen
-- and p_after_path are of the last one seen (keyset pages), a thousand at most.
create or replace function list_orphans(
  p_store text, p_after_store text, p_after_seen timestamptz, p_after_path text, p_limit integer)
returns table (store text, path text, size bigint, first_seen_at timestamptz, last_seen_at timestamptz)
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_seen timestamptz := coalesce(p_after_seen, '-infinity');
  v_hash bytea := coalesce(sha256(convert_to(p_after_path, 'UTF8')), '');
begin
  if p_store is not null then
    return query select o.store, o.path, o.size, o.first_seen_at, o.last_seen_at from artifact_orphan o
      where o.removed_at is null and o.store = p_store and (o.first_seen_at, o.path_hash) > (v_seen, v_hash)
      order by o.first_seen_at, o.path_hash limit least(p_limit, 1000);
  else
    return query select o.store, o.path, o.size, o.first_seen_at, o.last_seen_at from artifact_orphan o
      where o.removed_at is null and (o.store, o.first_seen_at, o.path_hash) > (coalesce(p_after_store, ''), v_seen, v_hash)
      order by o.store, o.first_seen_at, o.path_hash limit least(p_limit, 1000);
  end if;
end $$;
