-- The last two attempts of each job, for their spans: who links to the one before, or tells of one that was given up.
-- `closed_seconds`: how long ago it was closed. Unknown jobs, and those never claimed, have no row.
create or replace function traced_attempts(p_jobs uuid[])
returns table (job_id uuid, attempt_id uuid, namespace text, type text, queue text, state text, number integer,
  fencing_number bigint, worker text, claimed_at timestamptz, closed_at timestamptz, closed_as text, closed_by text,
  closed_seconds double precision, traceparent text, attempt_traceparent text)
language sql stable security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
  select j.id, a.id, j.namespace, j.type, r.queue, s.state, a.number, a.fencing_number, a.worker, a.claimed_at, a.closed_at,
      a.closed_as, a.closed_by, date_part('epoch', clock() - a.closed_at), j.traceparent, a.traceparent
    from unnest(p_jobs) p (id)
      join job_state s on s.job_id = p.id
      join job j on j.id = p.id
      join attempt a on a.job_id = p.id and a.number between s.number - 1 and s.number
      left join route r on r.name = j.route
    order by a.job_id, a.number
$$;
