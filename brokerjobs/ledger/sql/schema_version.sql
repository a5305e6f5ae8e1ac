-- What this schema is and which code it serves; readable by every role.
create or replace function schema_version() returns table (schema_version integer, oldest_code integer)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select m.schema_version, m.oldest_code from meta m
$$;
