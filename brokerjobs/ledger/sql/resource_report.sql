-- The resources that a job needs: who holds their places until when, and how many wait before it. Looked at without locks.
create or replace function resource_report(p_job uuid) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('name', n.name, 'limit', n.places,
      'held_by', (select coalesce(jsonb_agg(jsonb_build_object('job', p.job_id, 'attempt', p.attempt_id, 'worker', a.worker,
          'since', rfc3339(p.taken_at), 'until', rfc3339(s.lease_until)) order by p.place), '[]')
        from resource p join attempt a on a.id = p.attempt_id and a.closed_at is null join job_state s on s.job_id = p.job_id
        where p.namespace = j.namespace and p.name = n.name and p.place <= n.places),
      'ahead', (select count(*) from waiter w, waiter own where own.namespace = j.namespace and own.name = n.name and own.job_id = j.id
        and w.namespace = own.namespace and w.name = own.name and (w.since, w.job_id) < (own.since, own.job_id)))
      order by n.name), '[]')
    from job j cross join lateral (
      select x ->> 'name', (x ->> 'limit')::integer from jsonb_array_elements(j.resources) x) n (name, places)
    where j.id = p_job
$$;
