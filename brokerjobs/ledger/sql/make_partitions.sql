-- Makes the event partitions of this month and p_months ahead; answers those made. LIKE and ATTACH, not PARTITION OF,
-- which would lock out every writer of events.
create or replace function make_partitions(p_months integer) returns setof text
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
declare
  v_from timestamp;
  v_name text;
begin
  for i in 0 .. p_months loop
    v_from := date_trunc('month', clock() at time zone 'UTC') + make_interval(months => i);
    v_name := 'event_' || to_char(v_from, 'YYYYMM');
    continue when to_regclass('brokerjobs.' || v_name) is not null;
    lock table event in share update exclusive mode;  -- one maker at a time; writers go on
    continue when to_regclass('brokerjobs.' || v_name) is not null;
    execute format('create table %I (like event including defaults including constraints)', v_name);
    execute format('create trigger event_no_truncate before truncate on %I for each statement execute function append_only()', v_name);
    execute format('create index on %I (job_id)', v_name);
    execute format('alter table event attach partition %I for values from (%L) to (%L)', v_name,
      v_from::text || '+00', (v_from + interval '1 month')::text || '+00');
    return next v_name;
  end loop;
end $$;
