-- Submits jobs of one type: one verdict a row, in one transaction, the caller's included.
-- created | existing (same key, same payload: the same job) | conflict (same key, other payload) | key_in_flight (another open
-- transaction holds the key) | expired_record (same key, same payload: its job has ended and retention has removed its
-- record, `job_id` was its id) | unknown_type | invalid (detail says what).
-- Asked again with the same id the answer is `created` again, without a ticket: who asks twice has lost a reply (rule R7).
-- p_not_before_in and p_deadline_in count from the ledger's clock, where no absolute time is given (rule R2).
-- p_priorities: high, normal or low, null for normal; p_needs: what a row adds to the needs of its type, as JSON.
create or replace function submit_jobs(
  p_namespace text, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_submitted_by text, p_tags text[],
  p_not_before timestamptz[], p_deadlines timestamptz[], p_traceparents text[], p_fingerprint text,
  p_observed_at timestamptz, p_announced boolean, p_not_before_in interval[] default null, p_deadlines_in interval[] default null,
  p_priorities text[] default null, p_needs text[] default null)
returns table (id uuid, verdict text, job_id uuid, ticket uuid, route text, detail jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  y job_type;
  k idempotency_key;
  j job;
  t timestamptz := clock();
  v_began timestamptz := clock_timestamp();
  v_payload jsonb;
  v_hash bytea;
  v_taken boolean;
  v_route text;
  v_there uuid[];
  v_repeats boolean[] := case when cardinality(p_ids) > 1 then repeats(p_ids) end;
  v_made integer;
  v_plain boolean := p_priorities is null and p_needs is null;  -- are there no needs, and the lane normal alone?
  v_unused boolean;
  v_lane_problems jsonb;
  v_needs jsonb;
  v_resources jsonb;
  v_name text;
  v_places integer;
  g_index integer[] := '{}';
  g_payload jsonb[] := '{}';
  g_hash bytea[] := '{}';
  g_ticket uuid[] := '{}';
  g_route text[] := '{}';
  g_needs jsonb[] := '{}';
  g_resources jsonb[] := '{}';
begin
  select * into y from job_type x where x.namespace = p_namespace and x.name = p_type;
  v_route := route_name(y.namespace, y.queue, y.needs_hash, 'normal');
  select not r.wanted or r.declared_at is not null and r.retired_at is null and coalesce(r.used_at < t - interval '1 hour', true) into v_unused
    from route r where r.name = v_route;
  if y.needs = '[]' then
    y.needs := null;
  elsif jsonb_path_exists(y.needs, '$[*] ? (@.kind == "exclusive" || @.kind == "limit")') then
    v_plain := false;
  end if;
  v_there := array(select x.id from job x where x.id = any (p_ids));
  if p_priorities is not null then
    select jsonb_object_agg(l.lane, l.problem) into v_lane_problems
      from (select x.lane, too_many_routes(p_namespace, route_name(y.namespace, y.queue, y.needs_hash, x.lane))
        from unnest('{high,low}'::text[]) x (lane) where x.lane = any (p_priorities)) l (lane, problem) where l.problem is not null;
  end if;
  if p_not_before_in is not null then
    p_not_before := array(select coalesce(a.at, t + a.after) from unnest(p_not_before, p_not_before_in) a (at, after));
  end if;
  if p_deadlines_in is not null then
    p_deadlines := array(select coalesce(a.at, t + a.after) from unnest(p_deadlines, p_deadlines_in) a (at, after));
  end if;
  for i in 1 .. cardinality(p_ids) loop
    id := p_ids[i]; job_id := null; ticket := null; route := null; detail := null;
    if y.name is null then
      verdict := 'unknown_type'; return next; continue;
    end if;
    if p_ids[i] = any (v_there) then
      select * into j from job x where x.id = p_ids[i];
      if (j.namespace, j.type, j.key, j.payload) is not distinct from (p_namespace, p_type, p_keys[i], p_payloads[i]::jsonb) then
        verdict := 'created'; job_id := j.id; route := j.route;
      else
        verdict := 'invalid'; detail := jsonb_build_object('problem', format('id %s is that of another job', j.id));
      end if;
      return next; continue;
    end if;
    detail := case
      when p_payloads[i] is null then jsonb_build_object('problem', 'the payload is missing')
      when octet_length(p_payloads[i]) > y.payload_limit then
        jsonb_build_object('problem', 'payload_too_large', 'size', octet_length(p_payloads[i]), 'limit', y.payload_limit)
      when length(p_keys[i]) > 255 or p_keys[i] = '' then jsonb_build_object('problem', 'a key has 1 to 255 characters')
      when p_not_before[i] > t + interval '1 year' then jsonb_build_object('problem', 'not_before is more than a year ahead')
      when p_not_before[i] < '0001-01-02' then jsonb_build_object('problem', 'not_before is before the year 1')
      when p_deadlines[i] > t + interval '1 year' then jsonb_build_object('problem', 'the deadline is more than a year ahead')
      when p_deadlines[i] <= t then jsonb_build_object('problem', 'the deadline has passed')
      when tags_problem(p_tags[i]) is not null then jsonb_build_object('problem', tags_problem(p_tags[i]))
      when v_repeats[i] then jsonb_build_object('problem', 'the same id stands earlier in this batch') end;
    if detail is not null then
      verdict := 'invalid'; return next; continue;
    end if;
    v_payload := p_payloads[i]::jsonb;
    v_hash := sha256(convert_to(v_payload::text, 'UTF8'));
    route := v_route;
    if not v_plain then
      route := route_name(y.namespace, y.queue, y.needs_hash, coalesce(p_priorities[i], 'normal'));
      v_needs := p_needs[i]::jsonb;
      detail := case
        when p_priorities[i] not in ('high', 'normal', 'low') then
          jsonb_build_object('problem', format('priority %s is none of high, normal and low', left(p_priorities[i], 40)))
        when v_lane_problems ? p_priorities[i] then jsonb_build_object('problem', v_lane_problems ->> p_priorities[i])
        when v_needs is not null and needs_problem(v_needs) is not null then jsonb_build_object('problem', needs_problem(v_needs)) end;
      if detail is null then
        v_needs := needs_in_order(v_needs);
        v_resources := resources_of(coalesce(y.needs || v_needs, y.needs, v_needs), v_payload);
        detail := case when v_resources ? 'problem' then v_resources end;
      end if;
      if detail is not null then
        verdict := 'invalid'; route := null; return next; continue;
      end if;
    end if;
    if p_keys[i] is not null then
      -- All rows together wait for other transactions no longer than one may.
      if clock_timestamp() - v_began > interval '50 milliseconds' then
        perform set_config('lock_timeout',
          greatest(1, 2000 - (date_part('epoch', clock_timestamp() - v_began) * 1000)::integer)::text, true);
      end if;
      begin
        insert into idempotency_key values (p_namespace, p_type, p_keys[i], p_ids[i], v_hash, p_submitted_by, t)
          on conflict do nothing;
        v_taken := not found;
      exception when lock_not_available or deadlock_detected then
        verdict := 'key_in_flight'; route := null; return next; continue;
      end;
      if v_taken then
        select * into k from idempotency_key x where x.namespace = p_namespace and x.type = p_type and x.key = p_keys[i];
        if not found then
          verdict := 'key_in_flight'; route := null; return next; continue;  -- it was forgotten in this moment
        end if;
        job_id := k.job_id; route := null;
        verdict := case when k.payload_hash <> v_hash then 'conflict' when k.record_gone_at is null then 'existing' else 'expired_record' end;
        detail := jsonb_build_object('first_submitted_by', k.submitted_by, 'first_submitted_at', rfc3339(k.made_at));
        return next; continue;
      end if;
    end if;
    verdict := 'created'; job_id := p_ids[i];
    ticket := case when coalesce(p_not_before[i] <= t, true) then gen_random_uuid() end;
    g_index := g_index || i; g_payload := g_payload || v_payload; g_hash := g_hash || v_hash; g_ticket := g_ticket || ticket;
    if not v_plain then
      g_route := g_route || route; g_needs := g_needs || v_needs; g_resources := g_resources || v_resources;
    end if;
    return next;
  end loop;

  insert into job (id, namespace, type, route, payload, payload_hash, payload_fingerprint, key, submitted_by, login, tags,
      submitted_at, observed_at, not_before, deadline, traceparent, repeatable, lease, time_limit, retry_attempts,
      retry_elapsed, retry_first_delay, retry_factor, retry_max_delay, placement_deadline, result_limit,
      needs, added_needs, resources, priority)
    select p_ids[g.i], p_namespace, p_type, coalesce(g.route, v_route), g.payload, g.hash, p_fingerprint, p_keys[g.i], p_submitted_by, session_user,
        coalesce(p_tags[g.i], '{}')::jsonb, t, p_observed_at, p_not_before[g.i], p_deadlines[g.i], p_traceparents[g.i],
        y.repeatable, y.lease, y.time_limit, y.retry_attempts, y.retry_elapsed, y.retry_first_delay, y.retry_factor,
        y.retry_max_delay, y.placement_deadline, y.result_limit,
        y.needs, g.needs, g.resources, coalesce(p_priorities[g.i], 'normal')
      from unnest(g_index, g_payload, g_hash, g_route, g_needs, g_resources) g (i, payload, hash, route, needs, resources)
    on conflict do nothing;
  get diagnostics v_made = row_count;
  if v_made < cardinality(g_index) then
    raise exception 'a submission with the same id was just being committed; ask again' using errcode = 'serialization_failure';
  end if;
  insert into job_state (job_id, state, waiting, wait_until, deadline)
    select p_ids[g.i], 'queued', case when g.ticket is null then 'schedule' else 'delivery' end,
        case when g.ticket is null then p_not_before[g.i] end, p_deadlines[g.i]
      from unnest(g_index, g_ticket) g (i, ticket);
  insert into event (at, job_id, kind, state, detail)
    select t, p_ids[g.i], 'submitted', 'queued', jsonb_strip_nulls(jsonb_build_object('by', p_submitted_by, 'key', p_keys[g.i],
        'waiting', case when g.ticket is null then 'schedule' else 'delivery' end, 'until', case when g.ticket is null then rfc3339(p_not_before[g.i]) end))
      from unnest(g_index, g_ticket) g (i, ticket);
  insert into outbox (ticket, kind, job_id, made_at, hold_until)
    select g.ticket, 'doorbell', p_ids[g.i], t, case when p_announced then t + interval '2 seconds' else t end
      from unnest(g_index, g_ticket) g (i, ticket) where g.ticket is not null;

  if v_plain then
    if v_unused and cardinality(g_index) > 0 then
      perform use_route(v_route, t);
    end if;
    return;
  end if;
  for v_name in select distinct x from unnest(g_route) x order by x loop
    perform use_route(v_name, t);
  end loop;
  -- In the order of their names, so that two submissions never wait for each other, and none for long.
  for v_name, v_places in
    select x.name, max(x."limit") from unnest(g_resources) g (resources), jsonb_to_recordset(g.resources) x (name text, "limit" integer)
      group by x.name order by x.name collate "C"
  loop
    exit when not make_places(p_namespace, v_name, v_places);
  end loop;
end $$;
