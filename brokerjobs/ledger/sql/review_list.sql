-- Open reviews, oldest first, filtered; p_after is the id of the last one seen (keyset pages, ids grow with time).
create or replace function review_list(p_namespace text, p_type text, p_after uuid, p_limit integer)
returns table (review jsonb)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select review_json(v) from review v join job j on j.id = v.job_id
    where v.closed_at is null and (p_namespace is null or j.namespace = p_namespace) and (p_type is null or j.type = p_type)
      and (p_after is null or v.id > p_after)
    order by v.id limit least(p_limit, 1000)
$$;
