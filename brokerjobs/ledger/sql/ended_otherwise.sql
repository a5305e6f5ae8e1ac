-- Notes that a handler ended in another way than the result which its transaction had recorded; changes nothing.
create or replace function ended_otherwise(p_job uuid, p_attempt uuid, p_fencing_number bigint, p_how jsonb) returns void
language sql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select note(a.job_id, a.id, 'ended_otherwise', s.state, clock(), p_how)
    from attempt a join job_state s on s.job_id = a.job_id
    where a.id = p_attempt and a.job_id = p_job and a.fencing_number = p_fencing_number and a.reported_at is not null
$$;
