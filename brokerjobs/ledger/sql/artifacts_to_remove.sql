-- What the sweeper may delete from a store: what is due is recorded as to be removed, one by one under the locks of its job's
-- row and its own, and answered; so is what was answered a minute ago or earlier and is not yet gone. Nothing waits: what
-- somebody holds just now is left for the next time. At most p_limit are answered, and ten times as many looked at; a row without
-- an id says that there may be more.
create or replace function artifacts_to_remove(
  p_store text, p_incomplete interval, p_rejected interval, p_grace interval, p_limit integer)
returns table (id uuid, path text, why text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  a artifact;
  s job_state;
  n attempt;
  d record;
  t timestamptz := clock();
  v_id uuid;
  v_held boolean;  -- is the job's row ours?
  v_answered integer := 0;
  v_looked integer := 0;
begin
  perform require_read_committed();
  for v_id in
    select x.id from artifact x where p_limit > 0 and x.store = p_store and x.look_at <= t order by x.look_at limit p_limit * 10
  loop
    exit when v_answered >= p_limit;
    v_looked := v_looked + 1;
    select * into a from artifact x where x.id = v_id;
    select * into s from job_state x where x.job_id = a.job_id;
    select * into n from attempt x where x.id = a.attempt_id;
    v_held := s.job_id is null;
    if a.removing_at is null and not v_held then
      d := artifact_due(a, s, n, p_incomplete, p_rejected, p_grace, clock());
      if d.why is not null then
        -- It may be deleted, it seems: decided anew now that nobody can accept its attempt meanwhile.
        select * into s from job_state x where x.job_id = a.job_id for update skip locked;
        continue when not found;
        select * into n from attempt x where x.id = a.attempt_id;
        v_held := true;
      end if;
    end if;
    select * into a from artifact x where x.id = v_id for update skip locked;
    continue when not found or a.look_at is null;
    t := clock();
    if a.removing_at is null then
      d := artifact_due(a, s, n, p_incomplete, p_rejected, p_grace, t);
      if d.why is null then
        update artifact x set look_at = d.again, unacceptable_at = case when d.unacceptable then coalesce(x.unacceptable_at, t) end
          where x.id = a.id;
        continue;
      end if;
      continue when not v_held;
      update artifact x set removing_at = t, removing_why = d.why,
          expired_at = case d.why when 'unacknowledged' then t end,
          state = case d.why when 'unacknowledged' then 'expired_unacknowledged' when 'incomplete' then 'discarded'
            when 'not_accepted' then 'discarded' else x.state end
        where x.id = a.id returning * into a;
    end if;
    update artifact x set look_at = t + interval '1 minute' where x.id = a.id;
    id := a.id; path := a.path; why := a.removing_why;
    v_answered := v_answered + 1;
    return next;
  end loop;
  if p_limit > 0 and (v_answered >= p_limit or v_looked >= p_limit * 10) then
    id := null; path := null; why := 'more';
    return next;
  end if;
end $$;
