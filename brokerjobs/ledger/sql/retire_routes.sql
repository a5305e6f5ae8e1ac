-- Retires routes that have had no job for p_empty: they are wanted no more, so workers leave them; answers those whose queue
-- can be deleted now, because no living worker serves them. One of the lane normal that is served stays. Whoever submits
-- a job for it, or rings one in vain, wants it again (`routes_declared` then rings what was rung into the deleted queue).
create or replace function retire_routes(p_empty interval, p_limit integer)
returns table (name text, namespace text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_name text;
  t timestamptz := clock();
  v_served text[];
begin
  perform require_read_committed();
  v_served := array(select distinct x from live_workers(t) w, unnest(w.routes) x);
  for v_name in
    select r.name from route r
      where p_limit > 0 and r.wanted and greatest(r.made_at, r.used_at, r.declared_at) < t - p_empty and (r.lane <> 'normal' or r.name <> all (v_served))
      order by r.name limit p_limit for update skip locked
  loop
    if has_unfinished(v_name) then
      update route r set used_at = t where r.name = v_name;
    else
      update route r set wanted = false, retired_at = t where r.name = v_name;
    end if;
  end loop;
  return query select r.name, r.namespace from route r
    where p_limit > 0 and not r.wanted and r.retired_at is not null and r.declared_at is not null and r.name <> all (v_served)
    order by r.name limit p_limit;
end $$;
