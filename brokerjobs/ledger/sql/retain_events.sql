-- One step towards dropping the oldest month of events, once it has been over for p_longest, the longest time for which
-- a finished job is kept. Events of jobs that still exist (in review, queued for long) are copied to event_kept first, at most
-- p_limit jobs a step; `record` reads both. Answers what was done, and for which partition:
-- nothing | begun | waiting (for transactions that may still hold events of that month) | kept (jobs looked at)
-- | busy (somebody holds the table: try again later) | dropped.
-- Dropping needs the whole table for a moment. It waits for that a tenth of a second at most, since everybody else would
-- wait behind it.
create or replace function retain_events(p_longest interval, p_limit integer)
returns table (step text, name text, jobs integer)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '100ms' as $$
declare
  r retention;
  v_jobs uuid[];
begin
  step := 'nothing'; jobs := 0;
  if p_longest < interval '1 hour' then
    raise exception 'events are kept for an hour at least' using errcode = 'invalid_parameter_value';
  end if;
  select * into r from retention x where p_limit > 0 for update skip locked;
  if not found then
    return next; return;
  end if;
  name := r.partition;
  if name is null then
    select c.relname into name from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'event'::regclass order by c.relname limit 1;
    if (to_date(right(name, 6), 'YYYYMM') + interval '1 month') at time zone 'UTC' + p_longest < clock() then
      step := 'begun';
      update retention set partition = name, begun_before = pg_snapshot_xmax(pg_current_snapshot()), kept_up_to = null, walked = false;
    else
      name := null;
    end if;
  elsif pg_snapshot_xmin(pg_current_snapshot()) < r.begun_before then
    step := 'waiting';
  elsif not r.walked then
    step := 'kept';
    execute format('select array(select distinct e.job_id from %I e where $1 is null or e.job_id > $1 order by 1 limit $2)', name)
      into v_jobs using r.kept_up_to, p_limit;
    execute format('insert into event_kept select e.seq, e.at, e.job_id, e.attempt_id, e.kind, e.state, e.detail from %I e'
        ' where e.job_id = any (array(select s.job_id from job_state s where s.job_id = any ($1))) on conflict do nothing', name)
      using v_jobs;
    jobs := cardinality(v_jobs);
    update retention set kept_up_to = coalesce(v_jobs[jobs], kept_up_to), walked = jobs < p_limit;
  else
    begin
      lock table event in access exclusive mode;
      execute format('drop table %I', name);
      update retention set partition = null, begun_before = null, kept_up_to = null, walked = false;
      step := 'dropped';
    exception when lock_not_available then
      step := 'busy';
    end;
  end if;
  return next;
end $$;
