-- Raises the fencing generation by hand, after a restore that kept the server's identity and timeline.
create or replace function new_generation() returns bigint
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  update meta set generation = generation + 1 returning generation
$$;
