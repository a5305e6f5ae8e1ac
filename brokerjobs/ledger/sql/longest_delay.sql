-- The longest delay before the attempt that follows the n-th charged one, in seconds so that no interval can overflow.
create or replace function longest_delay(j job, p_charged integer) returns double precision language sql immutable as $$
  select least(
    extract(epoch from j.retry_max_delay)::double precision,
    extract(epoch from j.retry_first_delay)::double precision * power(j.retry_factor, least(greatest(p_charged, 1) - 1, 100)))
$$;
