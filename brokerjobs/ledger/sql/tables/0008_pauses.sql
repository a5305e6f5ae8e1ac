-- Paused job types. A pause is a row of its own, kept after its end: no column of job_type or route, whose rows every
-- submission reads. It says who, why and when, and so it is its own audit.
create table pause (
  id uuid primary key,                         -- of the request that asked for it: asked twice, it is one pause
  namespace text not null,
  type text not null,
  paused_at timestamptz not null,
  paused_by text not null,                     -- who they said they are
  login text not null,                         -- and the login with which they said it
  reason text not null,
  resumed_at timestamptz,
  resumed_by text,
  resumed_login text,
  resumed_why text,
  resume_id uuid,                              -- of the request that ended it
  constraint resumed_whole check ((resumed_at is null) = (resume_id is null) and (resumed_at is null) = (resumed_by is null))
);
create unique index pause_open on pause (namespace, type) where resumed_at is null;
create index pause_of_type on pause (namespace, type, paused_at);
create unique index pause_ended_by on pause (resume_id) where resume_id is not null;
create trigger pause_ended_once before update on pause for each row when (old.resumed_at is not null) execute function refuse_change();
create trigger pause_identity_once before update on pause for each row
  when ((old.id, old.namespace, old.type, old.paused_at, old.paused_by, old.login, old.reason)
        is distinct from (new.id, new.namespace, new.type, new.paused_at, new.paused_by, new.login, new.reason))
  execute function refuse_change();
create trigger pause_append_only before delete on pause for each row execute function append_only();
create trigger pause_no_truncate before truncate on pause for each statement execute function append_only();

-- Jobs whose doorbells were acknowledged because their type was paused: those that a resume owes a ring. Beside job_state,
-- so that no claim and no completion has one more index to keep. A row may outlive its reason (the job was cancelled, or
-- ended at its deadline); whoever takes it away looks at the job's own row.
create table parked (
  namespace text not null,
  type text not null,
  job_id uuid not null,
  primary key (namespace, type, job_id)
);
