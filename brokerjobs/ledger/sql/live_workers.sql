-- The workers that live, and what their last heartbeats said of doorbells. A worker is taken for dead three and a half of
-- its own heartbeats after the last one, and not before five seconds.
-- probed: it knows probes (older code would send them to quarantine). oldest_at: when it received the oldest delivery that
-- it has not claimed, by this clock; null if it has none.
create or replace function live_workers(t timestamptz)
returns table (routes text[], heartbeat_at timestamptz, probed boolean, consuming jsonb, missing jsonb, oldest_at timestamptz)
language sql stable as $$
  select w.routes, w.heartbeat_at, coalesce(w.detail -> 'reads' ? 'probe/1', false), w.detail -> 'consuming',
      w.detail -> 'missing', w.heartbeat_at - make_interval(secs => number_in(w.detail, 'oldest_unclaimed_seconds'))
    from worker w
    where w.role = 'worker' and w.state <> 'stopped'
      and w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10)))
$$;
