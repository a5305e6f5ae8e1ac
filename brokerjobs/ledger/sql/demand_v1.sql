-- Public: how many jobs of a queue run or could be claimed now: what an autoscaler (KEDA, say) divides by a worker's places.
-- Jobs that wait for a time, a resource or the end of a pause are none of them: more workers would not help.
-- With the capabilities of the workers that are to be scaled (as in unmet_needs) only jobs whose needs these meet are counted,
-- those that wait for placement included: otherwise nobody would be started for them. Without, those of every need are, and
-- none that another worker has refused.
-- Counts go to 10 000, of the oldest 100 000 jobs that wait for a delivery. Behind so many of other queues one of this queue
-- cannot be excluded: then it answers 1 in place of 0, so that a worker is there for it.
create or replace function demand_v1(p_namespace text, p_queue text, p_capabilities jsonb default null) returns bigint
language plpgsql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  v_routes text[];
  v_paused text[];
  v_running bigint;
  v_claimable bigint;
begin
  if not exists (select from route r where r.namespace = p_namespace and r.queue = p_queue) then
    raise exception 'the ledger knows no queue % of namespace %', p_queue, p_namespace
      using errcode = 'invalid_parameter_value', hint = 'see `brokerjobs queues list`; `brokerjobs setup MODULE:APP` makes the queues of an application';
  end if;
  v_routes := array(select r.name from route r where r.namespace = p_namespace and r.queue = p_queue
    and (p_capabilities is null or unmet_needs(r.needs, p_capabilities) = '[]'));
  select count(*) into v_running from (
    select from (select s.job_id from job_state s where s.state = 'running' order by s.job_id limit 100000) x
      join job j on j.id = x.job_id where j.route = any (v_routes) limit 10000) y;
  if queue_pause_of(p_namespace, p_queue) is not null then
    return v_running;
  end if;
  v_paused := array(select p.type from pause p where p.namespace = p_namespace and p.resumed_at is null);
  select count(*) into v_claimable from (
    select from (select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id limit 100000) x
      join job j on j.id = x.job_id
      where j.route = any (v_routes) and j.type <> all (v_paused)
        and (p_capabilities is null or j.added_needs is null or unmet_needs(j.added_needs, p_capabilities) = '[]') limit 10000) y;
  if p_capabilities is not null and v_claimable < 10000 then
    select v_claimable + count(*) into v_claimable from (
      select from (select s.job_id, s.waiting from job_state s where s.state = 'queued' and s.wait_until is not null order by s.wait_until limit 10000) x
        join job j on j.id = x.job_id
        where x.waiting = 'placement' and j.route = any (v_routes) and j.type <> all (v_paused)
          and coalesce(unmet_needs(needs_of_job(j), p_capabilities) = '[]', true) limit 10000) y;
  end if;
  if v_running + v_claimable = 0 and exists (
      select from job_state s where s.state = 'queued' and s.waiting = 'delivery' order by s.job_id offset 100000) then
    return 1;
  end if;
  return v_running + v_claimable;
end $$;
