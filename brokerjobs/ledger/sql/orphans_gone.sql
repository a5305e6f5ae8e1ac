-- Records that orphans are gone which a look through their whole store, begun p_since ago, has not found: somebody else has
-- removed them.
create or replace function orphans_gone(p_store text, p_since interval) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  update artifact_orphan o set removed_at = clock()
    where o.store = p_store and o.removed_at is null and o.last_seen_at < clock() - p_since
$$;
