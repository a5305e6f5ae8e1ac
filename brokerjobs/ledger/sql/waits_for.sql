-- What a queued job waits for, as it is shown. One that waits for a delivery waits for the end of a pause if its type or its
-- queue is paused, and for placement if no living worker qualifies for it: its doorbell may be at the broker for long.
-- One that waits for a resource or for placement comes with what the living workers lack of its type's needs; not one that a
-- worker refused for what its submission adds while others qualify for its type: they need not do for it.
create or replace function waits_for(p_job uuid, p_waiting text, p_detail jsonb) returns table (waiting text, detail jsonb)
language sql stable as $$
  select case when p_waiting is distinct from 'delivery' then p_waiting when x.pause is not null then 'pause' when x.since is not null then 'placement' else 'delivery' end,
      case when p_waiting = 'delivery' and x.pause is not null then x.pause
        when p_waiting = 'delivery' and x.since is null then p_detail
        when p_waiting in ('delivery', 'placement', 'resource') then coalesce(p_detail, '{}')
          || case when p_waiting = 'resource' then jsonb_build_object('resources', resource_report(p_job)) else '{}' end
          || case when x.report is not null and (x.since is not null or not coalesce(p_detail ? 'unmet', false)) then jsonb_strip_nulls(jsonb_build_object('report', x.report, 'since', rfc3339(x.since))) else '{}' end
        else p_detail end
    from (select) one left join lateral (
      select coalesce(pause_of(j.namespace, j.type), queue_pause_of(j.namespace, r.queue)) as pause, y.report, y.unplaceable_since as since
        from job j left join route r on r.name = j.route left join route_type y on (y.route, y.type) = (j.route, j.type)
        where j.id = p_job) x on p_waiting in ('delivery', 'placement', 'resource')
$$;
