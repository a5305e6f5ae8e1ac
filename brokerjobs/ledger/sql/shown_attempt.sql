-- The state in which an attempt is shown, computed from its two facts (rule R6).
create or replace function shown_attempt(a attempt) returns text language sql immutable as $$
  select case
    when a.verdict = 'accepted' then 'completed'
    when a.verdict = 'rejected' then 'rejected_stale'
    when a.closed_as is not null then a.closed_as
    when a.started_at is not null then 'active'
    else 'claimed' end
$$;
