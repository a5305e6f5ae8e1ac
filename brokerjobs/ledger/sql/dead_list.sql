-- Failed jobs that nobody has discarded, in groups that failed in the same way, the one that failed last first; at most
-- p_limit groups, or just one. `example` is its last job.
-- It reads the jobs that it counts and no other, by an index on those that nobody has discarded: planned for its arguments.
create or replace function dead_list(p_namespace text, p_type text, p_group text, p_limit integer)
returns table (group_id text, namespace text, type text, failure_class text, error_type text, message text,
  jobs bigint, first_at timestamptz, last_at timestamptz, example uuid)
language plpgsql stable security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
  return query
  select g.group_id, g.namespace, g.type, e.failure_class, e.error_type, e.message, g.jobs, g.first_at, g.last_at, e.job_id
    from (
      select x.namespace, x.type, x.group_id, count(*) as jobs, min(x.failed_at) as first_at, max(x.failed_at) as last_at
        from dead x
        where x.discarded_at is null and (p_namespace is null or x.namespace = p_namespace) and (p_type is null or x.type = p_type)
          and (p_group is null or x.group_id = p_group)
        group by x.namespace, x.type, x.group_id order by max(x.failed_at) desc, x.group_id limit least(p_limit, 1000)) g
    cross join lateral (
      select y.failure_class, y.error_type, y.message, y.job_id from dead y
        where y.discarded_at is null and (y.namespace, y.type, y.group_id) = (g.namespace, g.type, g.group_id) and y.failed_at = g.last_at
        order by y.job_id desc limit 1) e
    order by g.last_at desc, g.group_id;
end $$;
