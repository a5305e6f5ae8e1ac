-- RFC 3339 in UTC with microseconds, the only way in which times leave the ledger as text.
create or replace function rfc3339(t timestamptz) returns text language sql immutable as $$
  select to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
