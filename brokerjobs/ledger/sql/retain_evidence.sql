-- Removes what belongs to no job and is old enough: reports about jobs that the ledger does not know, p_longest after they
-- came, and artifacts of such, whose objects are gone as long; processes that have stopped or were not heard of for p_processes; records of quarantined messages after p_quarantine.
-- At most p_limit rows of each; answers how many of each.
create or replace function retain_evidence(
  p_longest interval, p_processes interval, p_quarantine interval, p_limit integer)
returns table (late_reports integer, processes integer, quarantined integer)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  t timestamptz := clock();
begin
  late_reports := 0; processes := 0; quarantined := 0;
  if least(p_longest, p_processes, p_quarantine) < interval '1 hour' then
    raise exception 'evidence is kept for an hour at least' using errcode = 'invalid_parameter_value';
  end if;
  perform from retention where p_limit > 0 for update skip locked;
  if not found then
    return next; return;
  end if;
  perform set_config('brokerjobs.retaining', 'yes', true);
  delete from late_report l where l.id = any (array(
    select x.id from late_report x where x.received_at < t - p_longest
        and not exists (select from job_state s where s.job_id = x.job_id)
      order by x.received_at limit p_limit for update skip locked));
  get diagnostics late_reports = row_count;
  delete from artifact a where a.id = any (array(
    select x.id from artifact x where x.removed_at < t - p_longest and not exists (select from job_state s where s.job_id = x.job_id)
      order by x.removed_at limit p_limit for update skip locked));
  perform set_config('brokerjobs.retaining', '', true);
  delete from artifact_orphan o where o.removed_at < t - p_quarantine;
  delete from worker w where w.id = any (array(
    select x.id from worker x where x.heartbeat_at < t - p_processes limit p_limit for update skip locked));
  get diagnostics processes = row_count;
  -- Numbers grow with time: looking at the first ones is enough, and never more work than that.
  delete from quarantine q where q.id = any (array(
    select x.id from (select y.id, y.at from quarantine y order by y.id limit p_limit) x where x.at < t - p_quarantine));
  get diagnostics quarantined = row_count;
  return next;
end $$;
