-- Is an artifact part of its job's result: made by the accepted attempt, or named by the result with which a review ended?
create or replace function artifact_is_visible(a artifact, s job_state) returns boolean language sql stable as $$
  select coalesce(s.accepted_attempt_id = a.attempt_id, false)
    or s.accepted_attempt_id is null and s.accepted_review_id is not null and exists (
      select from artifacts_named(result_of(s)) n where n.id = a.id::text)
$$;
