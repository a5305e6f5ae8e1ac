-- Has a waiter let its turn pass? It was rung and did not come within 5 seconds: others need not wait for it any more.
create or replace function is_late(w waiter, t timestamptz) returns boolean language sql immutable as $$
  select coalesce(w.rung_at <= t - interval '5 seconds', false)
$$;
