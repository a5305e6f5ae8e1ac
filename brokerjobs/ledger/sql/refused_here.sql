-- Has this worker, or one with the same payload model, given an attempt of this job back as not qualified for it? Then it
-- is not asked again: its model would refuse the payload once more. Workers tell the fingerprints of their models in their
-- heartbeats.
create or replace function refused_here(p_job uuid, p_type text, p_worker uuid) returns boolean language sql stable as $$
  select exists (select from attempt a
    where a.job_id = p_job and a.closed_as = 'released' and a.closed_why = 'not_here'
      and (a.worker_id = p_worker
        or a.failure ->> 'fingerprint' = (select w.detail -> 'models' ->> p_type from worker w where w.id = p_worker)))
$$;
