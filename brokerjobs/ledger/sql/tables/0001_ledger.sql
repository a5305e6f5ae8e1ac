-- The ledger's tables: the only truth about jobs and attempts.
-- There are no foreign keys between ledger tables: the functions of this schema are the only writers, and
-- retention removes a job's rows one table at a time.

create table meta (
  singleton boolean primary key default true check (singleton),
  schema_version integer not null,             -- number of the newest migration that ran
  oldest_code integer not null,                -- oldest code (its newest migration) that this schema serves
  generation bigint not null default 0,        -- raised when another server timeline is seen: keeps fencing numbers growing
  timeline text not null,
  system_identifier bigint not null
);

create table job_type (
  namespace text not null,
  name text not null,
  queue text not null,
  repeatable boolean not null,
  lease interval not null check (lease > interval '0'),
  time_limit interval not null check (time_limit > interval '0'),
  retry_attempts integer not null check (retry_attempts between 1 and 100),
  retry_elapsed interval not null check (retry_elapsed between interval '0' and interval '365 days'),
  retry_first_delay interval not null check (retry_first_delay between interval '0' and interval '365 days'),
  retry_factor double precision not null check (retry_factor between 1 and 100),
  retry_max_delay interval not null check (retry_max_delay between interval '0' and interval '365 days'),
  placement_deadline interval not null,
  payload_fingerprint text,
  payload_limit integer not null default 262144,
  result_limit integer not null default 262144,
  registered_at timestamptz not null,
  registered_by text not null,
  primary key (namespace, name)
);

create table route (
  name text primary key,                       -- {namespace}.q.{queue}: the RabbitMQ queue
  namespace text not null,
  queue text not null,
  made_at timestamptz not null,
  declared_at timestamptz                      -- null: not yet at the broker, the coordinator declares it
);

-- A submission, immutable. Terms are frozen here.
create table job (
  id uuid primary key,
  namespace text not null,
  type text not null,
  route text not null,
  payload jsonb not null,
  payload_hash bytea not null,                 -- SHA-256 of the canonical jsonb text
  payload_fingerprint text,                    -- model that accepted the payload; null: nobody checked it
  key text,
  submitted_by text not null,
  login text not null,
  tags jsonb not null,
  submitted_at timestamptz not null,           -- ledger's clock
  observed_at timestamptz,                     -- producer's clock, decides nothing
  not_before timestamptz,
  deadline timestamptz,
  traceparent text,
  repeatable boolean not null,
  lease interval not null,
  time_limit interval not null,
  retry_attempts integer not null,
  retry_elapsed interval not null,
  retry_first_delay interval not null,
  retry_factor double precision not null,
  retry_max_delay interval not null,
  placement_deadline interval not null,
  result_limit integer not null
);

-- The only row of a job that is locked, and the only one that decides (rule R1).
create table job_state (
  job_id uuid primary key,
  state text not null check (state in ('queued', 'running', 'review', 'succeeded', 'failed', 'cancelled')),
  waiting text check (waiting in ('delivery', 'schedule', 'retry', 'placement', 'resource', 'pause')),
  wait_until timestamptz,
  wait_detail jsonb,
  attempt_id uuid,                             -- the last attempt; only a claim, a replay and an effective cancel change it
  fencing_number bigint not null default 0,
  reported boolean not null default false,     -- has that attempt reported?
  started boolean not null default false,      -- was that attempt's start committed before its handler ran?
  number integer not null default 0,           -- attempts made
  charged integer not null default 0,          -- attempts that count against the retry policy
  uncharged integer not null default 0,        -- charges given back
  lease_until timestamptz,
  deadline timestamptz,
  cancel jsonb,                                -- {by, reason, at}: a cancel is requested
  first_claimed_at timestamptz,
  rung_at timestamptz,                         -- last confirmed publish of a doorbell
  accepted_attempt_id uuid,
  failure_class text,
  failure_reason text,
  finished_at timestamptz,
  constraint queued_says_why check ((state = 'queued') = (waiting is not null)),
  constraint running_has_lease check ((state = 'running') = (lease_until is not null)),
  constraint finished_has_time check ((state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
  constraint success_has_attempt check ((state = 'succeeded') <= (accepted_attempt_id is not null)),
  constraint failed_has_class check ((state = 'failed') = (failure_class is not null))
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
-- No index on lease_until: renewals stay HOT (PostgreSQL manual, storage-hot).
create index job_state_running on job_state (job_id) where state = 'running';
create index job_state_due on job_state (wait_until) where state = 'queued' and wait_until is not null;
create index job_state_deadline on job_state (deadline) where deadline is not null and finished_at is null;
-- PostgreSQL parses CHECK constraints and WHEN clauses anew for every statement (measured: 100 microseconds a row when
-- rows are updated one by one), so the hot paths decide row by row and then write a whole batch in one statement.

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% %: what is recorded is never changed', tg_table_name, to_jsonb(old) using errcode = 'BJ004', hint = tg_name;
end $$;
-- The allowed moves are those of rules/states.py. WHEN lets the usual moves pass without a call.
create function refuse_forbidden_move() returns trigger language plpgsql as $$
begin
  if new.fencing_number >= old.fencing_number and new.number >= old.number and (
      old.state = 'failed' and new.state in ('failed', 'queued', 'succeeded')
      or old.state = 'review' and new.state in ('review', 'queued', 'succeeded', 'failed', 'cancelled')) then
    return new;
  end if;
  raise exception 'job % may not go from % to %, nor count back, nor change once it has ended', old.job_id, old.state, new.state
    using errcode = 'BJ004';
end $$;
create trigger job_state_forbidden_move before update on job_state for each row
  when (old.state not in ('queued', 'running') or old.state = 'queued' and new.state = 'review'
        or new.fencing_number < old.fencing_number or new.number < old.number)
  execute function refuse_forbidden_move();

-- One try by one worker. Two facts, each written once: closed (by the ledger) and reported (by its worker).
create table attempt (
  id uuid primary key,
  job_id uuid not null,
  number integer not null,
  fencing_number bigint not null,
  worker_id uuid not null,
  worker text not null,
  login text not null,
  route text not null,
  ticket uuid,
  redelivered boolean,
  delivered_at timestamptz,                    -- worker's clock
  claimed_at timestamptz not null,
  charged boolean not null default true,
  started_at timestamptz,                      -- when the ledger heard of the start
  observed_started_at timestamptz,             -- worker's clock
  lease_first_until timestamptz not null,
  lease_last_until timestamptz not null,
  renewals integer not null default 0,
  smallest_margin interval,
  longest_round_trip interval,
  closed_at timestamptz,
  closed_as text check (closed_as in ('completed', 'failed', 'released', 'cancelled', 'timed_out')),
  closed_by text,
  closed_why text,
  reported_at timestamptz,                     -- ledger's clock
  observed_reported_at timestamptz,            -- worker's clock
  reported_as text check (reported_as in ('completed', 'failed', 'released')),
  verdict text check (verdict in ('accepted', 'recorded', 'rejected')),
  verdict_reason text,
  late boolean,
  answer_state text,                           -- the job's state that the report was answered with
  answer_until timestamptz,                    -- and the time of its next try, jitter included
  result jsonb,
  failure jsonb,
  ack_sent_at timestamptz,                     -- worker's clock; sent, never known to have arrived
  constraint closed_whole check ((closed_at is null) = (closed_as is null)),
  constraint reported_whole check ((reported_at is null) = (reported_as is null) and (reported_at is null) = (verdict is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create unique index attempt_of_job on attempt (job_id, number);
create unique index attempt_accepted on attempt (job_id) where verdict = 'accepted';

create trigger attempt_closed_once before update on attempt for each row
  when (old.closed_at is not null
        and (old.closed_at, old.closed_as, old.closed_by, old.closed_why)
            is distinct from (new.closed_at, new.closed_as, new.closed_by, new.closed_why))
  execute function refuse_change();
create trigger attempt_reported_once before update on attempt for each row
  when (old.reported_at is not null
        and (old.reported_at, old.observed_reported_at, old.reported_as, old.verdict, old.verdict_reason, old.late,
             old.answer_state, old.answer_until, old.result, old.failure)
            is distinct from (new.reported_at, new.observed_reported_at, new.reported_as, new.verdict, new.verdict_reason,
             new.late, new.answer_state, new.answer_until, new.result, new.failure))
  execute function refuse_change();
create trigger attempt_identity_once before update on attempt for each row
  when ((old.id, old.job_id, old.number, old.fencing_number, old.worker_id, old.claimed_at)
        is distinct from (new.id, new.job_id, new.number, new.fencing_number, new.worker_id, new.claimed_at))
  execute function refuse_change();

-- Every transition, append-only, by month of the ledger's clock.
create sequence event_seq;
create table event (
  seq bigint not null default nextval('event_seq'),
  at timestamptz not null,
  job_id uuid not null,
  attempt_id uuid,
  kind text not null,
  state text,                                  -- the job's state after the event
  detail jsonb
) partition by range (at);
create index event_of_job on event (job_id);

create function append_only() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'BJ004';
end $$;
create trigger event_append_only before update or delete on event for each row execute function append_only();
create trigger event_no_truncate before truncate on event for each statement execute function append_only();
create trigger job_immutable before update on job for each row execute function append_only();

-- One row a ring (never one a job), keyed by ticket, and one a dead-letter message.
create table outbox (
  ticket uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('doorbell', 'dead')),
  job_id uuid not null,
  made_at timestamptz not null,
  hold_until timestamptz not null,             -- left alone until then: its writer publishes it, or a relay is publishing it
  taken integer not null default 0,
  xid xid8 not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
create index outbox_by_transaction on outbox (xid);

create table idempotency_key (
  namespace text not null,
  type text not null,
  key text not null,
  job_id uuid not null,
  payload_hash bytea not null,
  submitted_by text not null,
  made_at timestamptz not null,
  primary key (namespace, type, key)
);

create table worker (
  id uuid primary key,                         -- one process, one id
  namespace text,
  name text not null,
  role text not null check (role in ('worker', 'coordinator')),
  host text not null,
  pid integer not null,
  login text not null,
  types text[] not null,
  routes text[] not null,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  observed_at timestamptz not null,
  state text not null check (state in ('online', 'draining', 'stopped')),
  detail jsonb not null default '{}'
);

-- Who runs a coordinator service just now: an economy, never a safety measure.
create table service (
  name text primary key,
  holder uuid not null,
  holder_name text not null,
  until timestamptz not null,
  ticked_at timestamptz not null,
  gap_ended_at timestamptz not null            -- the end of the last gap in its ticks (the first tick ends one)
);

-- Reports that belong to no open place: of an unknown job or attempt, or a different second one.
create table late_report (
  id bigint generated always as identity primary key,
  job_id uuid not null,
  attempt_id uuid not null,
  fencing_number bigint,
  received_at timestamptz not null,
  observed_at timestamptz,
  reported_as text not null,
  reason text not null,
  result jsonb,
  failure jsonb,
  login text not null
);
create index late_report_of_job on late_report (job_id);
create trigger late_report_append_only before update on late_report for each row execute function append_only();

create table review (
  id uuid primary key,
  job_id uuid not null,
  attempt_id uuid,
  cause text not null,
  opened_at timestamptz not null,
  closed_at timestamptz,
  closed_as text,
  closed_by text
);
create unique index review_open on review (job_id) where closed_at is null;

create table quarantine (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  worker text not null,
  route text not null,
  reason text not null,
  ticket uuid,
  job_id uuid,
  digest text
);

create type decision as (
  state text,
  waiting text,
  wait_until timestamptz,
  wait_detail jsonb,
  failure_class text,
  reason text
);

create type report_answer as (
  verdict text,
  reason text,
  late boolean,
  state text,
  until timestamptz
);
