-- Parks a locked queued job that could not be placed just now, as `placement` or `resource`, p_until or its placement deadline;
-- past that it ends as unplaceable. Answers until when it waits, null if it has ended.
create or replace function park_unplaced(
  s job_state, j job, p_waiting text, p_until timestamptz, p_detail jsonb, p_worker_name text, t timestamptz)
returns timestamptz language plpgsql volatile as $$
declare
  v_since timestamptz := coalesce(s.unplaced_since, t);
  v_until timestamptz := least(p_until, v_since + j.placement_deadline);
begin
  if s.unplaced_since + j.placement_deadline <= t then
    perform fail_unplaceable(s, unplaced_report(s.job_id, p_waiting, p_detail), t);
    return null;
  end if;
  if p_waiting = 'resource' then
    insert into waiter (namespace, name, job_id, since)
      select j.namespace, x.need ->> 'name', s.job_id, coalesce((select min(w.since) from waiter w where w.job_id = s.job_id), t)
        from jsonb_array_elements(j.resources) with ordinality x (need, place) order by x.place
      on conflict (namespace, name, job_id) do update set rung_at = null;
  end if;
  update job_state x set waiting = p_waiting, wait_until = v_until, wait_detail = p_detail, unplaced_since = v_since where x.job_id = s.job_id;
  perform note(s.job_id, null, case when p_waiting = 'resource' then 'resource_busy' when p_detail ? 'no_handler' then 'no_handler' else 'not_qualified' end,
    'queued', t, jsonb_strip_nulls(jsonb_build_object(
    'worker', p_worker_name, 'until', rfc3339(v_until), 'unmet', p_detail -> 'unmet', 'waiting', case when p_waiting = 'resource' then p_waiting end)));
  return v_until;
end $$;
