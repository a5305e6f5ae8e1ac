-- Records that the objects of artifacts are gone. Only of those that were recorded as to be removed.
create or replace function artifacts_removed(p_ids uuid[]) returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_ids) loop
    update artifact x set removed_at = clock(), look_at = null
      where x.id = p_ids[i] and x.removing_at is not null and x.removed_at is null;
  end loop;
end $$;
