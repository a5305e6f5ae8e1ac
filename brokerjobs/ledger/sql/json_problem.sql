-- What of somebody's JSON no worker could read (Python reads integers of 4300 digits, models 64 levels); null if nothing.
create or replace function json_problem(p jsonb) returns text language plpgsql immutable as $$
declare
  v_path text;
begin
  if jsonb_path_exists(p, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")') then
    return 'it is nested deeper than 64 levels';
  end if;
  if p::text ~ '\d{255}' then  -- which few have; 255 is the most that a pattern can count
    with recursive part (path, value) as (
      select '', p
      union all
      select path || s.step, s.value from part, lateral (
        select case when path = '' then '' else '.' end || o.key, o.value
          from jsonb_each(case jsonb_typeof(part.value) when 'object' then part.value else '{}' end) o
        union all
        select format('[%s]', a.n - 1), a.value
          from jsonb_array_elements(case jsonb_typeof(part.value) when 'array' then part.value else '[]' end)
            with ordinality a (value, n)) s (step, value)
    )
    select path into v_path from part where jsonb_typeof(value) = 'number' and abs(value::numeric) >= 1e4300 limit 1;
    if found then
      return format('the integer at %s has more than 4300 digits', coalesce(nullif(left(v_path, 200), ''), 'top level'));
    end if;
  end if;
  return null;
end $$;
