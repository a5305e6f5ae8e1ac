-- Objects without any row that were first seen in a store p_after ago or earlier, an hour at least; the oldest first.
create or replace function orphans_to_remove(p_store text, p_after interval, p_limit integer) returns table (path text)
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
  if p_after < interval '1 hour' then
    raise exception 'orphans are kept for an hour at least' using errcode = 'invalid_parameter_value';
  end if;
  return query select o.path from artifact_orphan o
    where o.store = p_store and o.removed_at is null and o.first_seen_at <= clock() - p_after order by o.first_seen_at limit p_limit;
end $$;
