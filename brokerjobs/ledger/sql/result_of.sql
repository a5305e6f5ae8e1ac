-- The result of a job that has succeeded: of its accepted attempt, or the one that a person gave; null for none.
create or replace function result_of(s job_state) returns jsonb language sql stable as $$
  select case
    when s.accepted_attempt_id is not null then (select a.result from attempt a where a.id = s.accepted_attempt_id)
    when s.accepted_review_id is not null then (select r.result from review r where r.id = s.accepted_review_id) end
$$;
