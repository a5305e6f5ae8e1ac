-- Whether an attempt that ended without an accepted result may be done again, and how that is known: {safe, why}. Null: it
-- has not ended so, or it ended before this was recorded.
alter table attempt add column safe_to_retry jsonb;

-- A job in review stays unfinished after its deadline; that it has passed is noted once. The index is the one that there
-- was, without those: they would be passed over at every tick.
alter table job_state add column deadline_noted boolean not null default false;
create index job_state_deadline_ahead on job_state (deadline)
  where deadline is not null and finished_at is null and not deadline_noted;
drop index job_state_deadline;

-- The retry budget of each queue. One service writes it, failures read it.
create table retry_budget (
  route text primary key,
  first_attempts bigint not null,              -- of the last five minutes
  retries bigint not null,
  stretch double precision not null check (stretch between 1 and 10),
  until timestamptz not null                   -- it counts until then: a budget that nobody writes ends
);
create table retry_count (
  route text not null,
  at timestamptz not null,                     -- attempts claimed between the count before and this time
  first_attempts bigint not null,
  retries bigint not null,                     -- attempts after a failed or a lost one
  primary key (route, at)
);
create table retry_counting (
  singleton boolean primary key default true check (singleton),
  counted_to timestamptz not null
);
insert into retry_counting (counted_to) values (clock_timestamp());
