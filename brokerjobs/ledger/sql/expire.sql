-- The reaper's step: gives up attempts whose lease is over, at most p_limit of them. Those that `lease_is_over` spares
-- (after a gap, for one lease of their own) are left out by the search: they would fill every batch and keep others back.
create or replace function expire(p_by text, p_limit integer)
returns table (job_id uuid, attempt_id uuid, state text, until timestamptz)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_id uuid;
  s job_state;
  j job;
  d decision;
  t timestamptz;
  v_gap_end timestamptz;
begin
  perform require_read_committed();
  select greatest(pg_postmaster_start_time(), r.gap_ended_at) into v_gap_end from service r where r.name = 'reaper';
  for v_id in
    select x.job_id from job_state x where x.state = 'running' and x.lease_until <= clock()
      and (select v_gap_end + y.lease from job y where y.id = x.job_id) <= clock() limit p_limit
  loop
    select * into s from job_state x where x.job_id = v_id for update skip locked;
    continue when not found or s.state <> 'running';
    t := clock();
    select * into j from job x where x.id = v_id;
    continue when not lease_is_over(s, j.lease, t);
    d := expire_attempt(s, j, p_by, t);
    job_id := v_id; attempt_id := s.attempt_id; state := d.state; until := d.wait_until;
    return next;
  end loop;
end $$;
