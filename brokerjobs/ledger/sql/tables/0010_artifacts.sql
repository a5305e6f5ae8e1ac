-- Artifacts: what attempts hand over that is too large for a result. The bytes are an object in a store outside the ledger;
-- its row is written before its first byte, and says of it what is known: it is the row that decides what may be removed.

create table artifact (
  id uuid primary key,                         -- made by the worker before it asks (rule R7)
  namespace text not null,
  job_id uuid not null,
  attempt_id uuid not null,
  number integer not null,                     -- the attempt's
  fencing_number bigint not null,
  name text not null check (char_length(name) between 1 and 1024),  -- for people and consumers, never part of a path
  name_hash bytea not null,                    -- SHA-256 of the name, which may be too long for an index
  content_type text check (char_length(content_type) between 1 and 255),
  store text not null,                         -- where it is, without secrets
  path text not null,                          -- {job}/{attempt}/{id}: never shared, and known before the first byte
  state text not null default 'staging'
    check (state in ('staging', 'ready', 'acknowledged', 'hash_mismatch', 'expired_unacknowledged', 'discarded')),
  size bigint check (size >= 0),
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  keep_for interval not null check (keep_for between interval '0' and interval '365 days'),  -- from its job's end on
  made_at timestamptz not null,
  login text not null,
  ready_at timestamptz,
  acknowledged_at timestamptz,
  acknowledged_by text,                        -- who they said they are
  acknowledged_login text,                     -- and the login with which they said it
  copied_to text,
  mismatch jsonb,                              -- {at, by, size, sha256}; size and sha256 null: there was no object
  expired_at timestamptz,
  unacceptable_at timestamptz,                 -- when the sweeper first saw that its attempt cannot be accepted any more
  removing_at timestamptz,                     -- from now on its object may be deleted
  removing_why text check (removing_why in ('incomplete', 'not_accepted', 'acknowledged', 'unacknowledged', 'mismatch')),
  removing_detail text,                        -- what its worker said when it gave the upload up
  removed_at timestamptz,                      -- the object is gone
  look_at timestamptz,                         -- when the sweeper looks at it next; null: never again
  constraint ready_whole check ((ready_at is null) = (sha256 is null) and (ready_at is null) = (size is null)),
  constraint staging_is_not_ready check (state <> 'staging' or ready_at is null and removing_at is null),
  constraint shown_was_ready check (state in ('staging', 'discarded') or ready_at is not null),
  constraint acknowledged_whole check ((acknowledged_at is null) = (acknowledged_by is null)
    and (acknowledged_at is null) = (acknowledged_login is null) and (acknowledged_at is null) = (copied_to is null)
    and (acknowledged_at is not null) = (state = 'acknowledged')),
  constraint removing_whole check ((removing_at is null) = (removing_why is null)),
  constraint discarded_is_removed check (state not in ('discarded', 'expired_unacknowledged') or removing_at is not null),
  constraint removed_was_recorded_first check (removed_at is null or removing_at is not null)
);
create index artifact_of_job on artifact (job_id);
create unique index artifact_name on artifact (attempt_id, name_hash) where state not in ('staging', 'discarded');
create index artifact_to_look_at on artifact (store, look_at) where look_at is not null;
create index artifact_being_removed on artifact (store, removing_at) where removing_at is not null and removed_at is null;
create index artifact_removed on artifact (removed_at) where removed_at is not null;
create index artifact_of_note on artifact (state, id) where state in ('hash_mismatch', 'expired_unacknowledged');

create trigger artifact_identity_once before update on artifact for each row
  when ((old.id, old.namespace, old.job_id, old.attempt_id, old.number, old.fencing_number, old.name, old.name_hash,
         old.content_type, old.store, old.path, old.keep_for, old.made_at, old.login)
        is distinct from (new.id, new.namespace, new.job_id, new.attempt_id, new.number, new.fencing_number, new.name,
         new.name_hash, new.content_type, new.store, new.path, new.keep_for, new.made_at, new.login))
  execute function refuse_change();
create trigger artifact_facts_once before update on artifact for each row
  when (old.ready_at is not null and (old.ready_at, old.size, old.sha256) is distinct from (new.ready_at, new.size, new.sha256)
        or old.acknowledged_at is not null
          and (old.acknowledged_at, old.acknowledged_by, old.acknowledged_login, old.copied_to)
              is distinct from (new.acknowledged_at, new.acknowledged_by, new.acknowledged_login, new.copied_to)
        or old.mismatch is not null and old.mismatch is distinct from new.mismatch
        or old.expired_at is not null and old.expired_at is distinct from new.expired_at
        or old.removing_at is not null
          and (old.removing_at, old.removing_why, old.removing_detail)
              is distinct from (new.removing_at, new.removing_why, new.removing_detail)
        or old.removed_at is not null and old.removed_at is distinct from new.removed_at)
  execute function refuse_change();
-- The allowed moves are those of rules/states.py.
create trigger artifact_forbidden_move before update on artifact for each row
  when (old.state <> new.state and not (
    old.state = 'staging' and new.state in ('ready', 'discarded')
    or old.state = 'ready' and new.state in ('acknowledged', 'hash_mismatch', 'expired_unacknowledged', 'discarded')
    or old.state = 'hash_mismatch' and new.state in ('acknowledged', 'discarded')
    or old.state = 'expired_unacknowledged' and new.state = 'acknowledged'))
  execute function refuse_change();
create trigger artifact_removal before delete on artifact for each row execute function refuse_removal_of_part();
create trigger artifact_no_truncate before truncate on artifact for each statement execute function append_only();

-- Objects that a store has and of which there is no row: recorded, and shown. They are removed only where that is asked for,
-- since another ledger may know them.
create table artifact_orphan (
  store text not null,
  path_hash bytea not null,                    -- SHA-256 of the path, which may be too long for an index
  path text not null,
  size bigint not null,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  removed_at timestamptz,
  primary key (store, path_hash)
);
create index artifact_orphan_there on artifact_orphan (store, first_seen_at) where removed_at is null;
