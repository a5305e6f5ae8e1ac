-- What is out of bounds in the terms of a job type, as write_types takes them, in words; null if nothing is. The bounds are
-- those of RetryPolicy, Terms and needs, repeated for whoever registers types without them.
create or replace function terms_problem(p_terms jsonb) returns text language sql immutable as $$
  select case
    when not coalesce(p_terms #>> '{retry,attempts}' ~ '^\d{1,9}$' and (p_terms #>> '{retry,attempts}')::integer between 1 and 100, false)
      then format('retry attempts %s are not a whole number from 1 to 100', left(p_terms #>> '{retry,attempts}', 40))
    when not coalesce((p_terms #>> '{retry,factor}')::double precision between 1 and 100, false)
      then format('the retry factor %s is not from 1 to 100', left(p_terms #>> '{retry,factor}', 40))
    when needs_problem(coalesce(p_terms -> 'needs', '[]')) is not null then needs_problem(coalesce(p_terms -> 'needs', '[]'))
    when coalesce(p_terms ->> 'needs_hash' !~ '^[0-9a-f]{12}$', false) then format('the hash of its needs %s is not 12 hex digits', left(p_terms ->> 'needs_hash', 40))
    when (worker_needs(coalesce(p_terms -> 'needs', '[]')) = '[]') <> (p_terms ->> 'needs_hash' is null)
      then 'a hash of needs is there if it needs anything of its workers, and only then'
    else (select format('%s of %s s is not from %s s to %s s%s', b.name, left(b.value, 40), b.low, b.high,
        case when b.high = 31536000 then ' (365 days)' else '' end)
      from (values
        ('the retry elapsed time', p_terms #>> '{retry,elapsed}', 0, 31536000),
        ('the first retry delay', p_terms #>> '{retry,first_delay}', 0, 31536000),
        ('the longest retry delay', p_terms #>> '{retry,max_delay}', 0, 31536000),
        ('the lease', p_terms ->> 'lease', 0.1, 86400),
        ('the time limit', p_terms ->> 'time_limit', 0.000001, 31536000),
        ('the placement deadline', p_terms ->> 'placement_deadline', 0.000001, 31536000)) b (name, value, low, high)
      where not coalesce(b.value::double precision between b.low and b.high, false) limit 1) end
$$;
