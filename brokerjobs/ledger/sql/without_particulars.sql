-- A message without what differs from job to job: ids, hexadecimal and other numbers, white space; what is left names a kind
-- of failure. Bounded, whatever it was.
create or replace function without_particulars(p_message text) returns text language sql immutable as $$
  select left(btrim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
      left(p_message, 1000),
      '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
      '\m(0x)?(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\M', '<hex>', 'g'),
      '\d+([.,:]\d+)*', '<n>', 'g'), '\s+', ' ', 'g')), 200)
$$;
