-- How a review ended, for whoever comes too late: by whose decision, or by which fact.
create or replace function review_end(v review) returns jsonb language sql immutable as $$
  select case when v.closed_at is not null then jsonb_build_object(
    'at', rfc3339(v.closed_at), 'as', v.closed_as, 'by', v.closed_by, 'decision', v.decision, 'login', v.login,
    'reason', v.reason, 'reference', v.reference, 'result', v.result, 'result_given', v.result is not null,
    'result_checked', v.result_checked) end
$$;
