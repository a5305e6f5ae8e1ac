-- Appends one event outside the set-based paths.
create or replace function note(p_job uuid, p_attempt uuid, p_kind text, p_state text, t timestamptz, p_detail jsonb)
returns void language sql volatile as $$
  insert into event (at, job_id, attempt_id, kind, state, detail) values (t, p_job, p_attempt, p_kind, p_state, p_detail)
$$;
