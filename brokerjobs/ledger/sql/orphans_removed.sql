-- Records that objects without any row are gone.
create or replace function orphans_removed(p_store text, p_paths text[]) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  update artifact_orphan o set removed_at = clock() from unnest(p_paths) p (path)
    where o.store = p_store and o.path_hash = sha256(convert_to(p.path, 'UTF8')) and o.removed_at is null
$$;
