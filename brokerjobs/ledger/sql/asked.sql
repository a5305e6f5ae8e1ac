-- Has this attempt reported? Lock, then read: the only question after a COMMIT without an answer (rule R7).
-- reported (with the stored verdict) | not_reported | locked (ask again) | unknown.
create or replace function asked(p_job uuid, p_attempt uuid, p_fencing_number bigint)
returns table (verdict text, reported_as text, report_verdict text, reason text, late boolean, state text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  a attempt;
begin
  perform require_read_committed();
  select * into s from job_state x where x.job_id = p_job for update skip locked;
  if not found then
    verdict := case when exists (select from job_state x where x.job_id = p_job) then 'locked' else 'unknown' end;
    return next; return;
  end if;
  select * into a from attempt x where x.id = p_attempt and x.job_id = p_job and x.fencing_number = p_fencing_number;
  verdict := case when a.id is null then 'unknown' when a.reported_at is null then 'not_reported' else 'reported' end;
  reported_as := a.reported_as; report_verdict := a.verdict; reason := a.verdict_reason; late := a.late; state := s.state;
  return next;
end $$;
