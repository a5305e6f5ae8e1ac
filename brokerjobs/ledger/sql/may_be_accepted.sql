-- May the result of an attempt still become its job's? Yes while it holds its place (it runs, or was given up and nobody has
-- claimed the job since: its late success is accepted), while its job is in review, and, if it was the last and was lost, while
-- its success is kept or may still come: `jobs adopt` can take it if the job fails, or has failed (the grounds of adopt).
-- What is answered no stays no: a newer attempt, another result and a final state are never taken back.
create or replace function may_be_accepted(s job_state, a attempt) returns boolean language sql immutable as $$
  select coalesce(a.number = s.number and s.state not in ('succeeded', 'cancelled') and (
    holds_place(s, a.id, a.fencing_number)
    or s.state = 'review'
    or a.closed_as = 'timed_out' and a.closed_why is distinct from 'deadline'
      and (a.reported_at is null or a.reported_as = 'completed' and a.verdict_reason = 'job_failed')), false)
$$;
