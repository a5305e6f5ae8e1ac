-- What `jobs explain` needs to know of one job: where it stands, what it needs, the resources that it waits for, and the
-- living workers of its namespace; null if the ledger knows no such job.
create or replace function explain(p_job uuid) returns jsonb
language sql stable security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
  select jsonb_build_object('at', rfc3339(clock()), 'id', j.id, 'namespace', j.namespace, 'type', j.type, 'state', s.state, 'route', j.route, 'queue', r.queue, 'priority', j.priority,
      'waiting', case when s.waiting is not null then jsonb_build_object('for', z.waiting, 'until', rfc3339(s.wait_until), 'detail', z.detail) end,
      'declared', r.declared_at is not null, 'submitted_at', rfc3339(j.submitted_at), 'rung_at', rfc3339(s.rung_at),
      'needs', coalesce(j.needs, '[]'), 'added_needs', coalesce(j.added_needs, '[]'),
      'resources', case when j.resources is null or s.finished_at is not null then '[]' else resource_report(j.id) end,
      'unplaced_since', rfc3339(s.unplaced_since), 'placement_deadline_seconds', extract(epoch from j.placement_deadline),
      'pauses', (select jsonb_agg(x) from (values (pause_of(j.namespace, j.type)), (queue_pause_of(j.namespace, r.queue))) v (x) where x is not null),
      'workers', workers_to_place(j.namespace, clock()))
    from job j join job_state s on s.job_id = j.id left join route r on r.name = j.route
      cross join lateral waits_for(s.job_id, s.waiting, s.wait_detail) z
    where j.id = p_job
$$;
