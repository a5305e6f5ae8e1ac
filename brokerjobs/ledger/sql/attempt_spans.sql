-- Records the contexts of the spans of attempts that were just granted. They only lead from one span to the next, so nothing
-- waits for them: they need not reach the disk at once, and an attempt that is being written just now is left out, as in
-- `acked`. What is no traceparent is left out, too; the first one stays.
create or replace function attempt_spans(p_attempts uuid[], p_traceparents text[])
returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  with free as materialized (
    select x.id from attempt x where x.id = any (p_attempts) for no key update skip locked
  )
  update attempt a set traceparent = g.traceparent
    from unnest(p_attempts, p_traceparents) g (id, traceparent) join free f on f.id = g.id
    where a.id = g.id and a.traceparent is null and g.traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$';
end $$;
