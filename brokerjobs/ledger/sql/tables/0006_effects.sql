-- Effects: what attempts do outside the ledger. Each has a name within its job; an attempt that wants to do it records its
-- intent first, and afterwards what became of it.

create table effect (
  job_id uuid not null,
  name text not null,
  try integer not null check (try > 0),        -- one more each time it is known that it did not happen
  key text not null,                           -- {job id}/{name}, from the second try on {job id}/{name}/{try}
  repeatable boolean not null,                 -- may an unknown one be done again? Only ever narrowed, from true to false
  valid_until timestamptz,                     -- until when the outside knows the key again; null: for ever
  made_at timestamptz not null,
  outcome text check (outcome in ('happened', 'did_not_happen')),  -- null: unknown
  known_at timestamptz,                        -- ledger's clock
  observed_known_at timestamptz,               -- worker's clock, decides nothing
  known_by text check (known_by in ('attempt', 'reconciler', 'review')),
  attempt_id uuid,                             -- the attempt whose call it was, if that one said so
  late boolean,                                -- that attempt was no longer the running one
  result jsonb,                                -- what the call returned
  reference text,                              -- what proves it in the world outside, or why it did not happen
  contradicted_at timestamptz,                 -- another attempt said otherwise since: see late_report
  settled_at timestamptz,                      -- and a person has decided about that
  primary key (job_id, name, try),
  constraint known_whole check ((outcome is null) = (known_at is null) and (outcome is null) = (known_by is null)),
  constraint settled_was_contradicted check (settled_at is null or contradicted_at is not null)
);
create trigger effect_identity_once before update on effect for each row
  when ((old.job_id, old.name, old.try, old.key, old.valid_until, old.made_at)
          is distinct from (new.job_id, new.name, new.try, new.key, new.valid_until, new.made_at)
        or new.repeatable and not old.repeatable)
  execute function refuse_change();
create trigger effect_known_once before update on effect for each row
  when (old.outcome is not null
        and (old.outcome, old.known_at, old.observed_known_at, old.known_by, old.attempt_id, old.late, old.result, old.reference)
            is distinct from (new.outcome, new.known_at, new.observed_known_at, new.known_by, new.attempt_id, new.late, new.result,
            new.reference))
  execute function refuse_change();
create trigger effect_doubted_once before update on effect for each row
  when (old.contradicted_at is not null and old.contradicted_at is distinct from new.contradicted_at
        or old.settled_at is not null and old.settled_at is distinct from new.settled_at)
  execute function refuse_change();

-- One attempt's permission to do it: recorded before the call, under the job's row lock. Never changed.
create table effect_intent (
  job_id uuid not null,
  name text not null,
  try integer not null,
  attempt_id uuid not null,
  fencing_number bigint not null,
  at timestamptz not null,                     -- ledger's clock
  observed_at timestamptz not null,            -- worker's clock
  time_limit interval not null,                -- the call's own: a call that ignores it is not known of
  login text not null,
  primary key (job_id, name, try, attempt_id)
);
create trigger effect_intent_append_only before update on effect_intent for each row execute function append_only();

create trigger effect_removal before delete on effect for each row execute function refuse_removal_of_part();
create trigger effect_intent_removal before delete on effect_intent for each row execute function refuse_removal_of_part();
create trigger effect_no_truncate before truncate on effect for each statement execute function append_only();
create trigger effect_intent_no_truncate before truncate on effect_intent for each statement execute function append_only();

-- So that claims and completions pay nothing for effects: the job has an effect that may not be repeated and of which it is
-- unknown whether it happened.
alter table job_state add column unknown_effect boolean not null default false;

-- Reconcilers: workers that ask the outside what became of a job in review, one of them at a time.
alter table review
  add column asked integer not null default 0, -- how often one of them has taken it up
  add column ask_at timestamptz,               -- not again before then; null: at once
  add column asking_until timestamptz,         -- one of them asks just now, until then at most
  add column asking_by text;
