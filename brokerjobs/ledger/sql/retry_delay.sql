-- Exponential back-off with full jitter for the n-th charged attempt
-- (AWS Architecture Blog, "Exponential Backoff And Jitter"). Computed in seconds so that no interval can overflow.
create or replace function retry_delay(j job, p_charged integer) returns interval language sql volatile as $$
  select make_interval(secs => random() * least(
    extract(epoch from j.retry_max_delay)::double precision,
    extract(epoch from j.retry_first_delay)::double precision * power(j.retry_factor, least(greatest(p_charged, 1) - 1, 100))))
$$;
