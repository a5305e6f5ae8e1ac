-- A UUIDv7 (RFC 9562, 5.7) from the ledger's clock, for submissions that bring no id.
create or replace function make_uuid7(t timestamptz) returns uuid language sql volatile as $$
  select encode(
    set_byte(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send(floor(date_part('epoch', t) * 1000)::bigint) from 3) from 1 for 6),
      6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
    'hex')::uuid
$$;
