-- A number of seconds in JSON that a process wrote, null if there is none: no heartbeat may make an error of a service.
create or replace function number_in(p_object jsonb, p_key text) returns double precision
language sql immutable as $$
  select case when jsonb_typeof(p_object -> p_key) = 'number' then least(greatest((p_object ->> p_key)::numeric, 0), 1000000000)::double precision end
$$;
