-- The smallest UUIDv7 of a millisecond (RFC 9562, 5.7): ids from it on were made then or later, by the clock of their maker.
create or replace function first_uuid7(t timestamptz) returns uuid language sql immutable as $$
  select (lpad(to_hex(floor(date_part('epoch', t) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;
