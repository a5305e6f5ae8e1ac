-- What people decide: about a job in review, and about jobs that failed.

-- One row for each job that a request of a person was about: asked again with the same id, it gets the same answer and
-- changes nothing (rule R7). Commands that are about no job keep theirs elsewhere.
create table request (
  id uuid not null,
  job_id uuid not null,
  command text not null,
  arguments jsonb not null,
  answer jsonb not null,
  at timestamptz not null,
  asked_by text not null,                      -- who they said they are
  login text not null,                         -- and the login with which they said it
  primary key (id, job_id)
);
create index request_of_job on request (job_id);
create trigger request_append_only before update on request for each row execute function append_only();
create trigger request_removal before delete on request for each row execute function refuse_removal_of_part();
create trigger request_no_truncate before truncate on request for each statement execute function append_only();

alter table review
  add column detail jsonb,                     -- what was known of the attempt when the review opened
  add column decision text check (decision in ('happened', 'retry', 'give_up')),  -- null: open, or a fact closed it
  add column login text,
  add column reason text,
  add column reference text,                   -- what proves that it happened, in the world outside
  add column result jsonb,                     -- the result that was given with "it happened"; null: none was
  add column result_checked boolean,           -- a model of its type has accepted that result
  add constraint decided_whole check ((decision is null) = (login is null) and (decision is null) = (reason is null)),
  add constraint happened_has_reference check ((decision is not distinct from 'happened') = (reference is not null));
create trigger review_closed_once before update on review for each row when (old.closed_at is not null)
  execute function refuse_change();

alter table job_state
  add column accepted_review_id uuid,          -- the review that ended with "it happened"
  add column forgiven integer not null default 0,  -- charged attempts from before the last replay: they count no more
  add column granted integer,                  -- attempts that a person granted; null: as many as the retry policy says
  drop constraint success_has_attempt;
-- Not validated: no row that the narrower one let in can break it, and looking at all of them would hold everybody up.
alter table job_state add constraint success_has_cause
  check (state <> 'succeeded' or accepted_attempt_id is not null or accepted_review_id is not null) not valid;

-- A message about a review that has opened: relays of before know only the other kinds, and are given no other.
alter table outbox drop constraint outbox_kind_check,
  add constraint outbox_kind_check check (kind in ('doorbell', 'dead', 'review'));

-- Failed jobs, until they are replayed or adopted: what people look at, in groups that have failed in the same way. Beside
-- job_state, so that no claim and no completion has one more index to keep.
create table dead (
  job_id uuid primary key,
  group_id text not null,
  namespace text not null,
  type text not null,
  failure_class text not null,
  error_type text,
  message text not null,                       -- of the last attempt, without what differs from job to job
  failed_at timestamptz not null,
  discarded_at timestamptz,                    -- somebody has seen it and wants to see it no more
  discarded_by text,
  discarded_why text
);
create index dead_shown on dead (namespace, type, group_id, failed_at, job_id) where discarded_at is null;
create index dead_of_group on dead (group_id, job_id) where discarded_at is null;

-- Jobs that have failed before: as the function `bury` does it from now on.
insert into dead (job_id, group_id, namespace, type, failure_class, error_type, message, failed_at)
  select y.job_id, left(encode(sha256(convert_to(jsonb_build_array(y.namespace, y.type, y.failure_class, y.error_type, y.message)::text, 'UTF8')), 'hex'), 12),
      y.namespace, y.type, y.failure_class, y.error_type, y.message, y.finished_at
    from (
      select s.job_id, j.namespace, j.type, s.failure_class, s.finished_at,
          coalesce(a.failure ->> 'type', case when a.closed_as = 'timed_out' then 'lease expired' end) as error_type,
          left(btrim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
            left(coalesce(a.failure ->> 'message', s.failure_reason, ''), 1000),
            '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
            '\m(0x)?(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\M', '<hex>', 'g'),
            '\d+([.,:]\d+)*', '<n>', 'g'), '\s+', ' ', 'g')), 200) as message
        from job_state s join job j on j.id = s.job_id left join attempt a on a.job_id = s.job_id and a.number = s.number
        where s.state = 'failed') y;
