-- What a decision names to say which record it was made on: the last event of the job, since whatever moves a record appends
-- one (rule R6). A doorbell that rings in vain moves nothing.
create or replace function job_version(p_job uuid) returns bigint language sql stable as $$
  select coalesce(greatest(
    (select max(e.seq) from event e where e.job_id = p_job and e.kind <> 'duplicate_delivery'),
    (select max(k.seq) from event_kept k where k.job_id = p_job and k.kind <> 'duplicate_delivery')), 0)
$$;
