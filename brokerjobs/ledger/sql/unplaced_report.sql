-- Why a job could not be placed, as it is frozen into its record when its placement deadline ends it: what it waited for, and a
-- sentence, which begins with who holds its resources if it waited for one.
create or replace function unplaced_report(p_job uuid, p_waiting text, p_detail jsonb) returns jsonb language sql stable as $$
  select z.detail || jsonb_build_object('text', coalesce(
      (select string_agg(format('resource %s, held by %s', n ->> 'name', coalesce(
          (select string_agg(format('job %s until %s', h ->> 'job', h ->> 'until'), ', ') from jsonb_array_elements(n -> 'held_by') h), 'nobody')), '; ')
        from jsonb_array_elements(z.detail -> 'resources') n)
        || coalesce((select '; workers: ' || string_agg(u ->> 'text', ', ') from jsonb_array_elements(z.detail -> 'report' -> 'unmet') u), ''),
      case when z.detail -> 'report' ->> 'because' is not null then z.detail -> 'report' ->> 'text' end,
      format('worker %s %s', z.detail ->> 'worker', case
        when z.detail ? 'no_handler' then format('has no handler for %s', z.detail ->> 'no_handler')
        when z.detail ? 'unmet' then format('does not meet %s', (select string_agg(u ->> 'name', ', ') from jsonb_array_elements(z.detail -> 'unmet') u))
        else 'does not qualify' end)))
    from (select coalesce(x.detail, p_detail, '{}') as detail from waits_for(p_job, p_waiting, p_detail) x) z
$$;
