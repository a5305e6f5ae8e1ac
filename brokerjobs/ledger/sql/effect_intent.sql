-- Asks for permission to do effects, before they are done. One verdict a row:
-- granted (with the `key`, its `try`, and how long the lease is now): only to the running attempt, with at least the call's
--   time limit left on its lease, which is lengthened for it as a renewal does. Asked again it gets the same grant.
-- happened: it was done before, `result` and `reference` say what came of it; do not do it again.
-- unknown: it may have happened and may not be repeated, or its key is no longer known outside: the job goes to review.
-- lost (`reason`): the attempt is not the running one, or may not go on; `try` is set if an intent of its own is open, so that
--   a worker which never made the call can say so.
-- too_long: the call's time limit is longer than the lease. locked: no answer, ask again.
create or replace function effect_intent(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_names text[], p_repeatable boolean[],
  p_valid_for double precision[], p_limits double precision[], p_observed_at timestamptz[])
returns table (
  job_id uuid, attempt_id uuid, verdict text, reason text, try integer, key text, lease_seconds double precision, result text,
  reference text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  e effect;
  t timestamptz;
  v_lease interval;
  v_limit interval;
  v_own boolean;
  v_repeats boolean[] := repeats(p_jobs);
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i];
    verdict := null; reason := null; try := null; key := null; lease_seconds := null; result := null; reference := null;
    if v_repeats[i] then
      verdict := 'locked'; return next; continue;
    end if;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'lost' end;
      reason := case verdict when 'lost' then 'unknown_job' end;
      return next; continue;
    end if;
    t := clock();
    v_limit := make_interval(secs => p_limits[i]);
    select lease into v_lease from job x where x.id = s.job_id;
    select * into e from effect x where x.job_id = s.job_id and x.name = p_names[i]
      -- Its own try, else one of which somebody must say what became of it, be it an earlier one; else the last.
      order by exists (select from effect_intent n where (n.job_id, n.name, n.try) = (x.job_id, x.name, x.try)
        and n.attempt_id = p_attempts[i]) desc, is_unknown(x) desc, x.try desc limit 1;
    v_own := e.job_id is not null and exists (select from effect_intent x
      where (x.job_id, x.name, x.try) = (e.job_id, e.name, e.try) and x.attempt_id = p_attempts[i]);

    reason := case
      when s.state in ('succeeded', 'failed', 'cancelled') then 'job_' || s.state
      when s.attempt_id is distinct from p_attempts[i] or s.fencing_number <> p_fencing_numbers[i] then 'newer_attempt'
      when s.reported then 'already_reported'
      when s.state <> 'running' or lease_is_over(s, v_lease, t) then 'lease_expired'
      when v_own then null
      when s.cancel is not null then 'job_cancelled'
      when s.deadline <= t then 'deadline' end;
    if reason is not null then
      verdict := 'lost';
      try := case when v_own and e.outcome is null then e.try end;
      return next; continue;
    end if;

    if is_unknown(e) and not (v_own and e.outcome is null and e.contradicted_at is null) then
      verdict := 'unknown';
    elsif e.outcome = 'happened' then
      verdict := 'happened'; try := e.try; key := e.key; result := e.result::text; reference := e.reference;
      return next; continue;
    elsif e.outcome = 'did_not_happen' and v_own then
      verdict := 'lost'; reason := 'already_reported';  -- this attempt has had its try
      return next; continue;
    elsif e.outcome is null and e.job_id is not null and not v_own
        and not (e.repeatable and p_repeatable[i] and coalesce(e.valid_until >= t + v_limit, true)) then
      verdict := 'unknown';
    end if;
    if verdict = 'unknown' then
      update effect x set repeatable = false where (x.job_id, x.name, x.try) = (e.job_id, e.name, e.try) and x.repeatable;
      update job_state x set unknown_effect = true where x.job_id = s.job_id and not x.unknown_effect;
      perform note(s.job_id, p_attempts[i], 'effect_unknown', s.state, t, jsonb_build_object('effect', p_names[i], 'key', e.key));
      try := e.try; key := e.key;
      return next; continue;
    end if;

    if v_limit > v_lease then
      verdict := 'too_long'; lease_seconds := date_part('epoch', v_lease);
      return next; continue;
    end if;
    if s.lease_until < t + v_limit then
      update job_state x set lease_until = t + v_lease where x.job_id = s.job_id;
      lease_seconds := date_part('epoch', v_lease);
    end if;
    verdict := 'granted';
    if not v_own then
      if e.job_id is null or e.outcome = 'did_not_happen' then
        e.try := coalesce(e.try, 0) + 1;
        e.key := s.job_id || '/' || p_names[i] || case when e.try > 1 then '/' || e.try else '' end;
        e.repeatable := p_repeatable[i];
        insert into effect (job_id, name, try, key, repeatable, valid_until, made_at)
          values (s.job_id, p_names[i], e.try, e.key, e.repeatable, t + make_interval(secs => p_valid_for[i]), t);
      end if;
      insert into effect_intent (job_id, name, try, attempt_id, fencing_number, at, observed_at, time_limit, login)
        values (s.job_id, p_names[i], e.try, p_attempts[i], p_fencing_numbers[i], t, p_observed_at[i], v_limit, session_user);
      if not e.repeatable then
        update job_state x set unknown_effect = true where x.job_id = s.job_id and not x.unknown_effect;
      end if;
      perform note(s.job_id, p_attempts[i], 'effect_intent', s.state, t, jsonb_build_object('effect', p_names[i], 'key', e.key));
    end if;
    try := e.try; key := e.key;
    return next;
  end loop;
end $$;
