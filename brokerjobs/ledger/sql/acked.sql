-- Records that acknowledgements were sent, and how the attempts' leases had fared (worker's clock). Evidence only, so it
-- need not reach the disk at once, and an attempt that is being written just now is left out: waiting for it, row by row,
-- could meet a report in a deadlock. Reports carry the same figures, but not those made in a user's own transaction.
create or replace function acked(
  p_attempts uuid[], p_sent_at timestamptz[], p_started_at timestamptz[], p_renewals integer[],
  p_margins double precision[], p_round_trips double precision[])
returns void
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set enable_seqscan = off as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  for i in 1 .. cardinality(p_attempts) loop
    update attempt a set ack_sent_at = coalesce(a.ack_sent_at, p_sent_at[i]),
        started_at = coalesce(a.started_at, case when p_started_at[i] is not null then clock() end),
        observed_started_at = coalesce(a.observed_started_at, p_started_at[i]), renewals = greatest(a.renewals, p_renewals[i]),
        smallest_margin = coalesce(a.smallest_margin, make_interval(secs => p_margins[i])),
        longest_round_trip = coalesce(a.longest_round_trip, make_interval(secs => p_round_trips[i]))
      where a.id = (select x.id from attempt x where x.id = p_attempts[i]
          and (x.ack_sent_at is null or x.renewals < p_renewals[i]) for no key update skip locked);
  end loop;
end $$;
