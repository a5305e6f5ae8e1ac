-- What is wrong with a time in the options of a submission; null if nothing is, or if it is left out.
create or replace function moment_problem(p_options jsonb, p_name text) returns text language sql immutable as $$
  select case
    when p_options -> p_name is null or p_options -> p_name = 'null' or p_options ->> p_name in ('infinity', '-infinity') then null
    when jsonb_typeof(p_options -> p_name) <> 'string' or p_options ->> p_name !~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d'
      then format('%s %s is no time such as "2030-01-31T12:00:00Z"', p_name, left(p_options ->> p_name, 80))
    when p_options ->> p_name !~ '([Zz]|[+-]\d\d(:?\d\d)?(:\d\d)?)$'
      then format('%s %s has no time zone: end it with Z for UTC, or with an offset such as +02:00', p_name, left(p_options ->> p_name, 80))
    end
$$;
