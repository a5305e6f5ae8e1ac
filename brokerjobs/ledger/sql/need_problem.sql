-- What is wrong with one need, in words; null if nothing is. The bounds are those of rules/need_problems.py, repeated for
-- whoever registers types or submits without it.
create or replace function need_problem(p_need jsonb) returns text language sql immutable as $$
  select case
    when jsonb_typeof(p_need) <> 'object' then 'it is not an object'
    when coalesce(p_need ->> 'kind' not in ('equal', 'one_of', 'at_least', 'has', 'exclusive', 'limit'), true)
      then 'its kind is none of equal, one_of, at_least, has, exclusive and limit'
    when p_need ->> 'kind' in ('exclusive', 'limit') then case
      when jsonb_typeof(p_need -> 'name') is distinct from 'string' or length(p_need ->> 'name') not between 1 and 200 or p_need ->> 'name' ~ '[[:cntrl:]]'
        then 'its name is not 1 to 200 printable characters'
      when regexp_replace(p_need ->> 'name', '\{[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*\}', '', 'g') ~ '[{}]'
        then 'a field of the payload is written {account} or {customer.id} in its name'
      when p_need ->> 'kind' = 'limit' and coalesce(p_need ->> 'limit' !~ '^[0-9]{1,4}$' or (p_need ->> 'limit')::integer not between 1 and 1000, true)
        then 'its limit is not a whole number from 1 to 1000' end
    when jsonb_typeof(p_need -> 'name') is distinct from 'string' or p_need ->> 'name' !~ '^[a-z0-9_.-]{1,100}$'
      then 'its name is not 1 to 100 lower-case letters, digits, _ - .'
    when p_need ->> 'kind' = 'one_of' then case
      when jsonb_typeof(p_need -> 'values') is distinct from 'array' or p_need -> 'values' = '[]' then 'its values are no list of texts'
      when exists (select from jsonb_array_elements(p_need -> 'values') v
          where jsonb_typeof(v) <> 'string' or length(v #>> '{}') not between 1 and 200 or v #>> '{}' ~ '[[:cntrl:]]')
        then 'its values are not 1 to 200 printable characters each' end
    when jsonb_typeof(p_need -> 'value') is distinct from 'string' or length(p_need ->> 'value') not between 1 and 200 or p_need ->> 'value' ~ '[[:cntrl:]]'
      then 'its value is not 1 to 200 printable characters'
    when p_need ->> 'kind' = 'at_least' then case
      when p_need ->> 'name' = 'python' then 'python is a version, not a quantity: as a number 3.9 is more than 3.11; use one_of'
      when quantity_of(p_need ->> 'value') is null
        then 'its value is not a quantity: a number with at most 12 digits and 3 decimals, alone or in B, kB, MB, GB, TB, KiB, MiB, GiB, TiB'
      when not quantity_of(p_need ->> 'value') @> jsonb_strip_nulls(jsonb_build_object('amount', p_need -> 'amount', 'unit', p_need -> 'unit'))
        then 'its amount and unit are not what its value says; leave them out' end
  end
$$;
