-- Forgets idempotency keys whose job's record was removed p_keys ago, at most p_limit; answers how many. From then on the
-- key may be used again.
create or replace function retain_keys(p_keys interval, p_limit integer) returns integer
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
declare
  t timestamptz := clock();
  v_gone integer := 0;
begin
  if p_keys < interval '1 hour' then
    raise exception 'keys are kept for an hour at least' using errcode = 'invalid_parameter_value';
  end if;
  perform from retention where p_limit > 0 for update skip locked;
  if found then
    with old as materialized (
      select k.namespace, k.type, k.key from idempotency_key k where k.record_gone_at < t - p_keys
        order by k.record_gone_at limit p_limit for update skip locked)
    delete from idempotency_key k using old o where (k.namespace, k.type, k.key) = (o.namespace, o.type, o.key);
    get diagnostics v_gone = row_count;
  end if;
  return v_gone;
end $$;
