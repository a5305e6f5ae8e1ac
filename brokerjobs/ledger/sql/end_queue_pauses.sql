-- Records the end of pauses of queues that ended by themselves, of one queue or (nulls) of all; the scheduler does at every tick.
create or replace function end_queue_pauses(p_namespace text, p_queue text, t timestamptz) returns void
language sql volatile as $$
  update queue_pause p set resumed_at = p.until, resumed_by = 'brokerjobs', resumed_login = session_user, resumed_why = 'its time was over',
      resume_id = gen_random_uuid()
    where p.resumed_at is null and p.until <= t and (p_namespace is null or (p.namespace, p.queue) = (p_namespace, p_queue))
$$;
