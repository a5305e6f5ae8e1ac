-- What is wrong with needs, in words; null if nothing is.
create or replace function needs_problem(p_needs jsonb) returns text language sql immutable as $$
  select case
    when jsonb_typeof(p_needs) <> 'array' then format('needs are of type %s, not a list', jsonb_typeof(p_needs))
    when jsonb_array_length(p_needs) > 32 then format('there are %s needs, over the limit of 32', jsonb_array_length(p_needs))
    else (select format('need %s: %s', left(n::text, 200), need_problem(n)) from jsonb_array_elements(p_needs) n
      where need_problem(n) is not null limit 1) end
$$;
