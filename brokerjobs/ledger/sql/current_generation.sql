-- The generation that fencing numbers carry, raised by one whenever another timeline or system identifier is seen:
-- a promoted standby whose clock is behind would otherwise hand out a smaller number (measured).
-- Null: somebody else is raising it just now, ask again.
create or replace function current_generation() returns bigint language plpgsql volatile as $$
declare
  m meta;
  v_timeline text := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
  v_system bigint := (select system_identifier from pg_control_system());
begin
  select * into m from meta;
  if m.timeline = v_timeline and m.system_identifier = v_system then
    return m.generation;
  end if;
  select * into m from meta for update skip locked;
  if not found then
    return null;
  end if;
  if m.timeline <> v_timeline or m.system_identifier <> v_system then
    update meta set generation = generation + 1, timeline = v_timeline, system_identifier = v_system
      returning * into m;
  end if;
  return m.generation;
end $$;
