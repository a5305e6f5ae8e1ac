-- Placement: what jobs need, by which route they come for that, and which resources an attempt holds.
-- Needs are the JSON of rules/needs.py: those that a worker must have (equal, one_of, at_least, has), and those of which
-- the ledger gives out a limited number of places (exclusive, limit).

alter table job_type add column needs jsonb not null default '[]';
alter table job_type add column needs_hash text;             -- of the needs that a worker must have; null if there are none

alter table job add column needs jsonb;                      -- its type's, frozen; null if there are none
alter table job add column added_needs jsonb;                -- what its submission added; null if nothing
alter table job add column resources jsonb;                  -- [{name, limit}] in the order of their names, templates filled in
alter table job add column priority text not null default 'normal' check (priority in ('high', 'normal', 'low'));

alter table job_state add column holds boolean not null default false;  -- does its attempt hold resources?
alter table job_state add column unplaced_since timestamptz;  -- since when it has waited for placement or a resource, ungranted

alter table attempt add column capabilities jsonb;           -- its worker's at the claim, if the job has needs

-- A route serves one queue name, one set of needs and one lane. Those of the lanes high and low are made with the others,
-- and wanted at their first use: an unused lane costs no queue.
alter table route add column needs jsonb not null default '[]';
alter table route add column needs_hash text;
alter table route add column lane text not null default 'normal' check (lane in ('high', 'normal', 'low'));
alter table route add column wanted boolean not null default true;
alter table route add column used_at timestamptz;            -- about the last time that it had a job, within the hour
alter table route add column retired_at timestamptz;         -- its queue is deleted, or about to be

-- The job types that come by a route, now or under earlier terms, and why no living worker can run such a job.
create table route_type (
  route text not null,
  namespace text not null,
  type text not null,
  since timestamptz not null,
  report jsonb,                                -- the explainer's, see rules/placement.py; null: not looked at yet
  unplaceable_since timestamptz,               -- since when no living worker qualifies; null: one does
  primary key (route, type)
);
create index route_type_of_type on route_type (namespace, type);
insert into route (name, namespace, queue, lane, wanted, made_at)
  select r.name || ':' || l, r.namespace, r.queue, l, false, r.made_at from route r, unnest('{high,low}'::text[]) l;
insert into route_type (route, namespace, type, since)
  select r.name, y.namespace, y.name, y.registered_at from job_type y join route r on (r.namespace, r.queue) = (y.namespace, y.queue);

-- The places of resources: an exclusive one has one, a limit as many as it says. A place is free when the attempt that took
-- it last is closed (or gone): outcomes do not write here, the next claim does. Made by submissions, in the order of their names.
create table resource (
  namespace text not null,
  name text not null,
  place integer not null check (place between 1 and 1000),
  job_id uuid,                                 -- who took it last
  attempt_id uuid,
  fencing_number bigint not null default 0,    -- the last one handed out for it: a result must carry it (rule R1)
  taken_at timestamptz,
  primary key (namespace, name, place)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Who waits for a resource, first come first served.
create table waiter (
  namespace text not null,
  name text not null,
  job_id uuid not null,
  since timestamptz not null,
  rung_at timestamptz,                         -- its turn came; who does not come within some seconds loses it
  primary key (namespace, name, job_id)
);
create index waiter_in_order on waiter (namespace, name, since, job_id);
create index waiter_of_job on waiter (job_id);

-- Paused queues, as paused job types: a pause is a row of its own, kept after its end.
create table queue_pause (
  id uuid primary key,                         -- of the request that asked for it: asked twice, it is one pause
  namespace text not null,
  queue text not null,
  paused_at timestamptz not null,
  paused_by text not null,
  login text not null,
  reason text not null,
  until timestamptz,                           -- it ends by itself then; null: only when it is resumed
  resumed_at timestamptz,
  resumed_by text,
  resumed_login text,
  resumed_why text,
  resume_id uuid,
  constraint resumed_whole check ((resumed_at is null) = (resume_id is null) and (resumed_at is null) = (resumed_by is null))
);
create unique index queue_pause_open on queue_pause (namespace, queue) where resumed_at is null;
create index queue_pause_of_queue on queue_pause (namespace, queue, paused_at);
create unique index queue_pause_ended_by on queue_pause (resume_id) where resume_id is not null;
create trigger queue_pause_ended_once before update on queue_pause for each row when (old.resumed_at is not null) execute function refuse_change();
create trigger queue_pause_identity_once before update on queue_pause for each row
  when ((old.id, old.namespace, old.queue, old.paused_at, old.paused_by, old.login, old.reason, old.until)
        is distinct from (new.id, new.namespace, new.queue, new.paused_at, new.paused_by, new.login, new.reason, new.until))
  execute function refuse_change();
create trigger queue_pause_append_only before delete on queue_pause for each row execute function append_only();
create trigger queue_pause_no_truncate before truncate on queue_pause for each statement execute function append_only();

-- Jobs whose doorbells were acknowledged because their queue was paused, as `parked` for types.
create table parked_queue (
  namespace text not null,
  queue text not null,
  job_id uuid not null,
  primary key (namespace, queue, job_id)
);
