-- What ended attempts tell of their leases, a row a registered job type; unknown types have none. All figures are seconds,
-- those of `granted`, `closed` and `reported` from the claim on, by the ledger's clock; the arrays go by attempt.
-- There is no index on the type of an attempt, so attempts are found by their ids, which grow with time (UUIDv7, by the
-- clocks of workers): the newest p_newest of all types, and where the ledger has more than that, p_each of each of p_slices
-- equal spans of the time before, so that a sample has seen every hour. `whole`: there were no more. `looked`: how many
-- were looked at, of whatever type. At most 200 000 of each kind. What a deadline ended says nothing of leases.
create or replace function lease_history(
  p_namespace text, p_type text, p_since interval, p_newest integer, p_slices integer, p_each integer)
returns table (namespace text, type text, repeatable boolean, lease_seconds double precision, time_limit_seconds double precision,
  whole boolean, looked bigint, looked_from timestamptz, oldest timestamptz, newest timestamptz, running bigint,
  leases double precision[], time_limits double precision[], granted double precision[], closed double precision[],
  reported double precision[], handlers double precision[], renewals integer[], margins double precision[],
  round_trips double precision[], lost boolean[], completed boolean[], limited boolean[])
language sql stable security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off as $$
  with span as materialized (
    select t - p_since as since, least(greatest(p_newest, 1), 200000) as most,
        least(greatest(p_slices, 0), 10000) as slices, least(greatest(p_each, 0), 200000 / least(greatest(p_slices, 1), 10000)) as each
      from (select clock() as t offset 0) c
  ),
  recent as materialized (
    select x.* from span p cross join lateral (
      select a.id, a.job_id from attempt a where a.id >= first_uuid7(p.since) order by a.id desc limit p.most) x
  ),
  reach as materialized (
    select p.*, x.id as first, x.count < p.most as whole,
        -- The time that a UUIDv7 was made: its first 48 bits are milliseconds (RFC 9562).
        to_timestamp(('x' || translate(left(x.id::text, 13), '-', ''))::bit(48)::bigint / 1000.0) - p.since as before
      from span p cross join (select (array_agg(r.id order by r.id))[1] as id, count(*) as count from recent r) x
  ),
  looked as materialized (
    select r.id, r.job_id from recent r
    union all
    select x.id, x.job_id from reach p cross join generate_series(0, p.slices - 1) n cross join lateral (
      select a.id, a.job_id from attempt a
        where a.id >= first_uuid7(p.since + p.before * n / p.slices)
          and a.id < least(first_uuid7(p.since + p.before * (n + 1) / p.slices), p.first)
        order by a.id desc limit p.each) x
      where not p.whole and p.before > interval '0'
  ),
  found as materialized (
    select j.namespace, j.type, date_part('epoch', j.lease) as lease, date_part('epoch', j.time_limit) as time_limit,
        a.id, a.claimed_at, a.lease_first_until, a.lease_last_until, a.closed_at, a.reported_at, a.observed_reported_at,
        a.observed_started_at, a.renewals, a.smallest_margin, a.longest_round_trip,
        coalesce(a.closed_as = 'timed_out', false) as was_lost,
        coalesce(a.reported_as = 'completed', false) as was_completed,
        coalesce(a.failure ->> 'type' = 'TimeLimitExceeded', false) as was_limited
      from looked k join job j on j.id = k.job_id join attempt a on a.id = k.id, span p
      where (p_namespace is null or j.namespace = p_namespace) and (p_type is null or j.type = p_type)
        and a.claimed_at >= p.since and a.closed_why is distinct from 'deadline'
  ),
  told as (
    select f.namespace, f.type, min(f.claimed_at) as oldest, max(f.claimed_at) as newest,
        count(*) filter (where f.closed_at is null) as running,
        array_agg(f.lease order by f.id) filter (where e.ended) as leases,
        array_agg(f.time_limit order by f.id) filter (where e.ended) as time_limits,
        array_agg(date_part('epoch', f.lease_last_until - f.lease_first_until) order by f.id) filter (where e.ended) as granted,
        array_agg(date_part('epoch', f.closed_at - f.claimed_at) order by f.id) filter (where e.ended) as closed,
        array_agg(date_part('epoch', f.reported_at - f.claimed_at) order by f.id) filter (where e.ended) as reported,
        array_agg(date_part('epoch', f.observed_reported_at - f.observed_started_at) order by f.id) filter (where e.ended) as handlers,
        -- Null until a report or an acknowledgement has told them.
        array_agg(case when f.renewals > 0 or f.reported_at is not null and f.lease_last_until = f.lease_first_until
          then f.renewals end order by f.id) filter (where e.ended) as renewals,
        array_agg(date_part('epoch', f.smallest_margin) order by f.id) filter (where e.ended) as margins,
        array_agg(date_part('epoch', f.longest_round_trip) order by f.id) filter (where e.ended) as round_trips,
        array_agg(f.was_lost order by f.id) filter (where e.ended) as lost,
        array_agg(f.was_completed order by f.id) filter (where e.ended) as completed,
        array_agg(f.was_limited order by f.id) filter (where e.ended) as limited
      from found f cross join lateral (select f.closed_at is not null and (f.was_lost or f.reported_at is not null) as ended) e
      group by f.namespace, f.type
  )
  select y.namespace, y.name, y.repeatable, date_part('epoch', y.lease), date_part('epoch', y.time_limit),
      (select r.whole from reach r), (select count(*) from looked), (select r.since from reach r),
      f.oldest, f.newest, coalesce(f.running, 0),
      coalesce(f.leases, '{}'), coalesce(f.time_limits, '{}'), coalesce(f.granted, '{}'), coalesce(f.closed, '{}'),
      coalesce(f.reported, '{}'), coalesce(f.handlers, '{}'), coalesce(f.renewals, '{}'), coalesce(f.margins, '{}'),
      coalesce(f.round_trips, '{}'), coalesce(f.lost, '{}'), coalesce(f.completed, '{}'), coalesce(f.limited, '{}')
    from job_type y left join told f on (f.namespace, f.type) = (y.namespace, y.name)
    where (p_namespace is null or y.namespace = p_namespace) and (p_type is null or y.name = p_type)
    order by y.namespace, y.name limit 10000
$$;
