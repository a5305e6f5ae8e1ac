-- Removes finished jobs with all that belongs to them: succeeded ones p_succeeded after their end, failed and cancelled
-- ones p_ended after theirs, at most p_limit of each. Answers how many jobs and attempts were removed.
-- Resources go with the last job that names them. The row that decides goes first, taken SKIP LOCKED like the attempts: a job that somebody writes just now is left for
-- the next time. A report that comes afterwards is kept as evidence about an unknown job; a ring that is still in the
-- outbox is forgotten by the relay; events go with their month. The key stays, and knows that its record is gone.
-- A job whose artifacts have objects stays: nobody else knows where they are. What a failed or cancelled one has left is given to
-- the sweeper now, what could still be adopted included, and the job goes after it.
create or replace function retain_jobs(p_succeeded interval, p_ended interval, p_limit integer)
returns table (jobs integer, attempts integer)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  t timestamptz := clock();
  v_jobs uuid[];
  v_attempts uuid[];
  v_artifacts uuid[];
begin
  jobs := 0; attempts := 0;
  if least(p_succeeded, p_ended) < interval '1 hour' then
    raise exception 'jobs are kept for an hour at least' using errcode = 'invalid_parameter_value';
  end if;
  perform from retention where p_limit > 0 for update skip locked;
  if not found then
    return next; return;
  end if;
  v_jobs := array(select s.job_id from job_state s where s.state = 'succeeded' and s.finished_at < t - p_succeeded
      and not exists (select from artifact a where a.job_id = s.job_id and a.removed_at is null)
    order by s.finished_at limit p_limit for update skip locked);
  v_jobs := v_jobs || array(select s.job_id from job_state s where s.state in ('failed', 'cancelled') and s.finished_at < t - p_ended
      and not exists (select from artifact a where a.job_id = s.job_id and a.removing_at is not null and a.removed_at is null)
    order by s.finished_at limit p_limit for update skip locked);
  v_attempts := array(select a.id from attempt a where a.job_id = any (v_jobs) for update skip locked);
  v_jobs := array(select j from unnest(v_jobs) j where not exists (
    select from attempt a where a.job_id = j and not a.id = any (v_attempts)));
  v_artifacts := array(select a.id from artifact a where a.job_id = any (v_jobs) for update skip locked);
  update artifact a set state = 'discarded', removing_at = t, look_at = t,
      removing_why = case a.state when 'staging' then 'incomplete' else 'not_accepted' end
    where a.id = any (v_artifacts) and a.removing_at is null;
  v_jobs := array(select j from unnest(v_jobs) j where not exists (
    select from artifact a where a.job_id = j and (a.removed_at is null or not a.id = any (v_artifacts))));

  perform set_config('brokerjobs.retaining', 'yes', true);
  delete from job_state s where s.job_id = any (v_jobs);
  get diagnostics jobs = row_count;
  delete from attempt a where a.job_id = any (v_jobs);
  get diagnostics attempts = row_count;
  delete from late_report l where l.job_id = any (v_jobs);
  delete from effect_intent i where i.job_id = any (v_jobs);
  delete from effect e where e.job_id = any (v_jobs);
  delete from artifact a where a.job_id = any (v_jobs);
  delete from review r where r.job_id = any (v_jobs);
  delete from request q where q.job_id = any (v_jobs);
  delete from dead x where x.job_id = any (v_jobs);
  delete from waiter w where w.job_id = any (v_jobs);
  perform retain_resources(v_jobs, p_succeeded, t);
  delete from event_kept e where e.job_id = any (v_jobs);
  update idempotency_key k set record_gone_at = t from job j
    where j.id = any (v_jobs) and (k.namespace, k.type, k.key) = (j.namespace, j.type, j.key) and k.job_id = j.id;
  delete from parked k using job j where j.id = any (v_jobs) and (k.namespace, k.type, k.job_id) = (j.namespace, j.type, j.id);
  delete from parked_queue k using job j join route r on r.name = j.route
    where j.id = any (v_jobs) and (k.namespace, k.queue, k.job_id) = (j.namespace, r.queue, j.id);
  delete from job j where j.id = any (v_jobs);
  perform set_config('brokerjobs.retaining', '', true);
  return next;
end $$;
