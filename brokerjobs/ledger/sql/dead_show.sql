-- Where a failed job stands among the dead: its group, and whether and by whom it was discarded; no row if it did not fail.
create or replace function dead_show(p_job uuid)
returns table (group_id text, jobs bigint, failed_at timestamptz, discarded_at timestamptz, discarded_by text, discarded_why text)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select x.group_id, (select count(*) from dead y where y.group_id = x.group_id and y.discarded_at is null),
      x.failed_at, x.discarded_at, x.discarded_by, x.discarded_why
    from dead x where x.job_id = p_job
$$;
