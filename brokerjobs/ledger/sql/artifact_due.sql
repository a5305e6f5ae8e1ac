-- What the sweeper may do with an artifact at time t: `why` it is to be removed, else `again`, when to look at it next.
-- `unacceptable`: its attempt's result cannot be accepted any more. Nothing is decided here without the lock of the job's row.
-- Those that may still be accepted are looked at after a tenth of their age, an hour at most: what ends a job says nothing here.
-- What a coordinator's setting keeps is looked at once an hour: the setting may be a shorter one then. keep_for is the row's own.
create or replace function artifact_due(
  a artifact, s job_state, n attempt, p_incomplete interval, p_rejected interval, p_grace interval, t timestamptz,
  out why text, out again timestamptz, out unacceptable boolean)
language plpgsql stable as $$
declare
  v_due timestamptz;
  v_visible boolean := artifact_is_visible(a, s);
  v_settled boolean := false;  -- is v_due the row's own, whoever sweeps?
begin
  unacceptable := not v_visible and not may_be_accepted(s, n);
  if a.acknowledged_at is not null then
    why := 'acknowledged'; v_due := a.acknowledged_at + p_grace;
  elsif a.state = 'staging' then
    -- The upload of an attempt that was given up may still end, and be accepted: it is given as long again.
    why := 'incomplete';
    v_due := p_incomplete + case when v_visible or unacceptable then a.made_at
      when n.closed_at is not null then greatest(a.made_at, n.closed_at) end;
  elsif v_visible then
    why := case a.state when 'hash_mismatch' then 'mismatch' else 'unacknowledged' end;
    v_due := s.finished_at + a.keep_for; v_settled := true;
  elsif unacceptable then
    why := 'not_accepted'; v_due := coalesce(a.unacceptable_at, t) + p_rejected;
  end if;
  if v_due is null or v_due > t then
    why := null;
    again := case
      when v_due is null then t + least(interval '1 hour', greatest(interval '1 minute', (t - a.made_at) / 10))
      when v_settled then v_due
      else least(v_due, t + interval '1 hour') end;
  end if;
end $$;
