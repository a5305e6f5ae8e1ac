-- Records that acknowledgements were sent, and how the attempts' leases had fared (worker's clock). Evidence only, so it
-- need not reach the disk at once, and an attempt that is being written just now is left out: waiting for it, row by row,
-- could meet a report in a deadlock. Reports carry the same figures, but not those made in a user's own transaction.
create or replace function acked(
  p_attempts uuid[], p_sent_at timestamptz[], p_started_at timestamptz[], p_renewals integer[],
  p_margins double precision[], p_round_trips double precision[])
returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  with free as materialized (
    select x.id from attempt x where x.id = any (p_attempts) for no key update skip locked
  )
  update attempt a set ack_sent_at = coalesce(a.ack_sent_at, g.sent_at),
      started_at = coalesce(a.started_at, case when g.started_at is not null then clock() end),
      observed_started_at = coalesce(a.observed_started_at, g.started_at), renewals = greatest(a.renewals, g.renewals),
      smallest_margin = coalesce(a.smallest_margin, make_interval(secs => g.margin)),
      longest_round_trip = coalesce(a.longest_round_trip, make_interval(secs => g.round_trip))
    from unnest(p_attempts, p_sent_at, p_started_at, p_renewals, p_margins, p_round_trips)
        g (id, sent_at, started_at, renewals, margin, round_trip)
      join free f on f.id = g.id
    where a.id = g.id and (a.ack_sent_at is null or a.renewals < g.renewals);
end $$;
