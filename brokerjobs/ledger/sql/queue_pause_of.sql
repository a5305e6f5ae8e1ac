-- Who paused a queue, why, since when, and until when if it ends by itself; null if it is not paused.
create or replace function queue_pause_of(p_namespace text, p_queue text) returns jsonb
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('queue', p.queue, 'by', p.paused_by, 'reason', p.reason, 'since', rfc3339(p.paused_at),
      'until', rfc3339(p.until)))
    from queue_pause p
    where p.namespace = p_namespace and p.queue = p_queue and p.resumed_at is null and (p.until is null or p.until > clock())
$$;
