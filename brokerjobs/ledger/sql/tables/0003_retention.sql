-- Retention: rows leave the ledger by one road, the function retain_jobs, which takes job_state's row first, the one that
-- decides, and then what belongs to it (and retain_evidence, for reports about jobs that are not there). While they delete
-- they say that they are that road, by a setting of their transaction; everybody else is refused.

-- Finished jobs by age, one index a horizon: with a single one the few kept long would be passed over at every look for
-- the many kept short. A job enters an index once, when it finishes; claims and renewals touch neither.
create index job_state_succeeded on job_state (finished_at) where state = 'succeeded';
create index job_state_ended on job_state (finished_at) where state in ('failed', 'cancelled');

alter table idempotency_key add column record_gone_at timestamptz;  -- retention has removed the record of its job
create index idempotency_key_gone on idempotency_key (record_gone_at) where record_gone_at is not null;

create index review_of_job on review (job_id);
create index late_report_received on late_report (received_at);

-- Events of jobs that still exist, of months whose partition was dropped.
create table event_kept (
  seq bigint primary key,
  at timestamptz not null,
  job_id uuid not null,
  attempt_id uuid,
  kind text not null,
  state text,
  detail jsonb
);
create index event_kept_of_job on event_kept (job_id);

-- One row: whoever holds its lock removes, others do nothing. It also says how far the removal of a month has come.
create table retention (
  singleton boolean primary key default true check (singleton),
  partition text,                              -- the event partition that is being emptied
  begun_before xid8,                           -- transactions from this one on began after that month had ended
  kept_up_to uuid,                             -- jobs up to this one have had their events kept
  walked boolean not null default false        -- all have: the partition can be dropped
);
insert into retention default values;

create function refuse_removal_of_unfinished() returns trigger language plpgsql as $$
begin
  if current_setting('brokerjobs.retaining', true) is distinct from 'yes' or old.finished_at is null then
    raise exception 'job % is removed by retention alone, and only once it has finished', old.job_id
      using errcode = 'BJ004', hint = tg_name;
  end if;
  return old;
end $$;
create function refuse_removal_of_part() returns trigger language plpgsql as $$
begin
  if current_setting('brokerjobs.retaining', true) is distinct from 'yes'
      or exists (select from brokerjobs.job_state s where s.job_id = old.job_id) then
    raise exception 'a row of % is removed by retention alone, after its job', tg_table_name
      using errcode = 'BJ004', hint = tg_name;
  end if;
  return old;
end $$;
create function refuse_removal_of_submission() returns trigger language plpgsql as $$
begin
  if current_setting('brokerjobs.retaining', true) is distinct from 'yes'
      or exists (select from brokerjobs.job_state s where s.job_id = old.id) then
    raise exception 'the submission of job % is removed by retention alone, after its state', old.id
      using errcode = 'BJ004', hint = tg_name;
  end if;
  return old;
end $$;
create trigger job_state_removal before delete on job_state for each row execute function refuse_removal_of_unfinished();
create trigger job_removal before delete on job for each row execute function refuse_removal_of_submission();
create trigger attempt_removal before delete on attempt for each row execute function refuse_removal_of_part();
create trigger review_removal before delete on review for each row execute function refuse_removal_of_part();
create trigger late_report_removal before delete on late_report for each row execute function refuse_removal_of_part();
create trigger event_kept_removal before delete on event_kept for each row execute function refuse_removal_of_part();
create trigger event_kept_append_only before update on event_kept for each row execute function append_only();

create trigger job_state_no_truncate before truncate on job_state for each statement execute function append_only();
create trigger job_no_truncate before truncate on job for each statement execute function append_only();
create trigger attempt_no_truncate before truncate on attempt for each statement execute function append_only();
create trigger review_no_truncate before truncate on review for each statement execute function append_only();
create trigger late_report_no_truncate before truncate on late_report for each statement execute function append_only();
create trigger event_kept_no_truncate before truncate on event_kept for each statement execute function append_only();
