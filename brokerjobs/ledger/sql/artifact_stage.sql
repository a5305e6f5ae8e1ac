-- Records uploads before their first byte is written. One verdict a row; asked again with the same id, the same answer:
-- staged (`path`: where the object belongs in its store) | name_used (another artifact of this attempt is ready under it)
-- | lost (`reason`: the attempt's result cannot be accepted any more, or the id is another artifact's) | unknown_job.
-- It waits for nobody: the state row is read without a lock, and what an attempt writes after it was superseded is swept.
create or replace function artifact_stage(
  p_jobs uuid[], p_attempts uuid[], p_fencing_numbers bigint[], p_ids uuid[], p_names text[], p_content_types text[],
  p_stores text[], p_keep_for double precision[])
returns table (job_id uuid, attempt_id uuid, id uuid, verdict text, reason text, path text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  s job_state;
  a artifact;
  t timestamptz;
  v_hash bytea;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_ids) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; id := p_ids[i]; reason := null; path := null;
    select * into s from job_state x where x.job_id = p_jobs[i];
    select * into a from artifact x where x.id = p_ids[i];
    if not found and s.job_id is null then
      verdict := 'unknown_job'; return next; continue;
    end if;
    t := clock();
    v_hash := sha256(convert_to(p_names[i], 'UTF8'));
    if a.id is null and not holds_place(s, p_attempts[i], p_fencing_numbers[i]) then
      verdict := 'lost';
      reason := case
        when s.state in ('succeeded', 'failed', 'cancelled') then 'job_' || s.state
        when s.attempt_id = p_attempts[i] and s.reported then 'already_reported'
        when s.attempt_id is null then 'decided' else 'newer_attempt' end;
      return next; continue;
    end if;
    if a.id is null then
      if exists (select from artifact x where x.attempt_id = p_attempts[i] and x.name_hash = v_hash and x.state not in ('staging', 'discarded')) then
        verdict := 'name_used'; return next; continue;
      end if;
      insert into artifact (id, namespace, job_id, attempt_id, number, fencing_number, name, name_hash, content_type, store, path,
          keep_for, made_at, login, look_at)
        select p_ids[i], j.namespace, j.id, s.attempt_id, s.number, s.fencing_number, p_names[i], v_hash, p_content_types[i], p_stores[i],
            j.id || '/' || s.attempt_id || '/' || p_ids[i], coalesce(make_interval(secs => p_keep_for[i]), interval '7 days'),
            t, session_user, t
          from job j where j.id = s.job_id
        on conflict do nothing;
      select * into a from artifact x where x.id = p_ids[i];
    end if;
    if (a.job_id, a.attempt_id, a.name_hash) is distinct from (p_jobs[i], p_attempts[i], v_hash) then
      verdict := 'lost'; reason := 'id_used'; return next; continue;
    end if;
    verdict := 'staged'; path := a.path;
    return next;
  end loop;
end $$;
