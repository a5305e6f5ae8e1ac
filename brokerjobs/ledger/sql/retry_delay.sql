-- Exponential back-off with full jitter for the n-th charged attempt
-- (AWS Architecture Blog, "Exponential Backoff And Jitter").
create or replace function retry_delay(j job, p_charged integer) returns interval language sql volatile as $$
  select make_interval(secs => random() * longest_delay(j, p_charged))
$$;
