-- The review that an id names: its own, or a job's open one, else the job's last.
create or replace function review_of(p_id uuid) returns review language sql stable as $$
  select r from review r where r.id = p_id or r.job_id = p_id order by r.closed_at is null desc, r.opened_at desc limit 1
$$;
