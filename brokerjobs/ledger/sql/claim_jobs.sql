-- Claims jobs for deliveries: one verdict a row, nothing waits (rules R4, R5, R9).
-- granted: this attempt holds the lease. again: not looked at, the answer is full, ask again. locked: busy, ask again.
-- held, finished, not_due, paused, resource, review, no_handler, unknown_job, wrong_route: somebody or something else will
-- ring, acknowledge. A worker that has not said in its heartbeat that it reads `paused` or `resource` is answered `not_due`,
-- which older code knows. lost: the attempt id was used before and is no longer the running one. no_handler is also the answer
-- to a worker whose model has refused the job's payload before, or that does not meet what its submission needs (not qualified).
-- `needs` are those of the job, its type's and its submission's, that a worker must have; null if there are none.
-- Rows are decided one by one under their locks and written set-based after the loop, by nested loops over the primary
-- key whatever the statistics say: the planner settings of the function see to that.
create or replace function claim_jobs(
  p_worker uuid, p_worker_name text, p_namespace text, p_types text[],
  p_jobs uuid[], p_attempts uuid[], p_routes text[], p_tickets uuid[], p_redelivered boolean[], p_delivered_at timestamptz[])
returns table (
  job_id uuid, attempt_id uuid, verdict text, state text, until timestamptz,
  number integer, fencing_number bigint, lease_seconds double precision, time_limit_seconds double precision,
  repeatable boolean, checked boolean, type text, payload text,
  key text, submitted_by text, tags jsonb, deadline timestamptz, traceparent text, needs jsonb)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  s job_state;
  j job;
  d decision;
  t timestamptz;
  v_generation bigint;
  v_bytes bigint := 0;
  v_detail jsonb;
  v_unmet jsonb;
  v_pause double precision;
  v_worker jsonb;
  v_repeats boolean[] := repeats(p_jobs);
  v_paused text[] := array(select p.type from pause p where p.namespace = p_namespace and p.resumed_at is null);
  v_paused_routes text[] := array(select r.name from queue_pause p join route r on r.namespace = p.namespace and r.queue = p.queue
    where p.namespace = p_namespace and p.resumed_at is null and coalesce(p.until > clock(), true));
  v_pausing boolean := cardinality(v_paused) + cardinality(v_paused_routes) > 0;
  v_queue text;
  v_lacks_handler boolean;
  g_index integer[] := '{}';
  g_at timestamptz[] := '{}';
  g_until timestamptz[] := '{}';
  g_number integer[] := '{}';
  g_fencing_number bigint[] := '{}';
  g_needy integer[] := '{}';
  g_holding integer[] := '{}';
begin
  perform require_read_committed();
  v_generation := current_generation();
  for i in 1 .. cardinality(p_jobs) loop
    job_id := p_jobs[i]; attempt_id := p_attempts[i]; state := null; until := null; number := null; fencing_number := null;
    lease_seconds := null; time_limit_seconds := null; repeatable := null; checked := null; type := null; payload := null;
    key := null; submitted_by := null; tags := null; deadline := null; traceparent := null; needs := null;
    if v_generation is null or v_repeats[i] then
      verdict := 'locked'; return next; continue;
    end if;
    if v_bytes > 8388608 then
      verdict := 'again'; return next; continue;
    end if;
    select * into s from job_state x where x.job_id = p_jobs[i] for update skip locked;
    if not found then
      verdict := case when exists (select from job_state x where x.job_id = p_jobs[i]) then 'locked' else 'unknown_job' end;
      return next; continue;
    end if;
    t := clock();
    select * into j from job x where x.id = s.job_id;
    if j.route <> p_routes[i] or j.namespace <> p_namespace then
      verdict := 'wrong_route'; return next; continue;
    end if;

    if s.attempt_id = p_attempts[i] then
      -- The reply to the same request was lost: the same answer again.
      if s.state = 'running' and not s.reported then
        verdict := 'granted'; number := s.number; fencing_number := s.fencing_number; needs := needs_of_job(j);
      else
        verdict := 'lost'; state := s.state; return next; continue;
      end if;
    else
      if s.number > 0 and exists (select from attempt a where a.id = p_attempts[i]) then
        verdict := 'lost'; state := s.state; return next; continue;
      end if;
      if s.state = 'running' and lease_is_over(s, j.lease, t) then
        d := expire_attempt(s, j, 'claim', t);
        s.state := d.state; s.waiting := d.waiting; s.wait_until := d.wait_until; s.wait_detail := d.wait_detail;
      elsif s.state = 'running' and s.deadline <= t then
        d := end_at_deadline(s, j, 'claim', t);
        s.state := d.state; s.lease_until := null;
      end if;
      if s.state = 'queued' and (s.deadline <= t or (s.waiting in ('retry', 'placement', 'resource') and s.wait_until <= t)) then
        d := decide(s, j, 'waiting', '{}', t);
        if d.state <> 'queued' then
          d := end_waiting(s, j, t);
          s.state := d.state;
        end if;
      end if;
      if s.state <> 'queued' then
        verdict := case s.state when 'running' then 'held' when 'review' then 'review' else 'finished' end;
        state := s.state; until := s.lease_until;
        perform note(s.job_id, null, 'duplicate_delivery', s.state, t, jsonb_build_object(
          'ticket', p_tickets[i], 'worker', p_worker_name, 'redelivered', p_redelivered[i]));
        return next; continue;
      end if;
      if s.wait_until > t then
        verdict := 'not_due'; state := s.state; until := s.wait_until; return next; continue;
      end if;
      if v_pausing and (j.type = any (v_paused) or j.route = any (v_paused_routes)) then
        v_queue := (select r.queue from route r where r.name = j.route);
        if j.type = any (v_paused) or queue_pause_of(p_namespace, v_queue) is not null then
          if j.type = any (v_paused) then
            perform park(s, j, p_worker_name, t);
          else
            perform park_queue(s, j, v_queue, p_worker_name, t);
          end if;
          v_worker := coalesce(v_worker, (select w.detail from worker w where w.id = p_worker), '{}');
          verdict := case when v_worker -> 'reads' ? 'paused/1' then 'paused' else 'not_due' end;
          state := 'queued'; type := j.type; return next; continue;
        end if;
      end if;
      v_lacks_handler := not j.type = any (p_types);
      if v_lacks_handler or s.uncharged > 0 and refused_here(s.job_id, j.type, p_worker) or j.added_needs is not null then
        v_detail := jsonb_build_object(case when v_lacks_handler then 'no_handler' else 'not_qualified' end, j.type);
        if not v_lacks_handler and j.added_needs is not null and not (s.uncharged > 0 and refused_here(s.job_id, j.type, p_worker)) then
          v_worker := coalesce(v_worker, (select w.detail from worker w where w.id = p_worker), '{}');
          v_unmet := unmet_needs(worker_needs(j.added_needs), coalesce(v_worker -> 'capabilities', '{}'));
          v_detail := case when v_unmet <> '[]' then v_detail || jsonb_build_object('unmet', v_unmet) end;
        end if;
        if v_detail is not null then
          -- Parked with a timer, never straight back to the queue where the same worker would take it again.
          v_detail := v_detail || jsonb_build_object('worker', p_worker_name, 'refusals', least(coalesce((s.wait_detail ->> 'refusals')::integer, 0) + 1, 1000));
          v_pause := case when v_detail ? 'unmet' and another_meets(p_worker, j, worker_needs(j.added_needs), t) then 1
            else least(30, power(2, least((v_detail ->> 'refusals')::integer - 1, 10))) end;
          until := park_unplaced(s, j, 'placement', t + make_interval(secs => v_pause), v_detail, p_worker_name, t);
          verdict := case when until is null then 'finished' else 'no_handler' end;
          state := case when until is null then 'failed' else 'queued' end;
          return next; continue;
        end if;
      end if;

      fencing_number := greatest(s.fencing_number + 1, (date_part('epoch', t) * 1000)::bigint + v_generation * 86400000);
      if j.needs is not null or j.added_needs is not null or j.resources is not null then
        if j.resources is not null then
          fencing_number := take_resources(s, j, p_attempts[i], p_attempts, fencing_number, t);
          if fencing_number is null then
            verdict := 'locked'; return next; continue;
          elsif fencing_number = 0 then
            fencing_number := null;
            until := park_unplaced(s, j, 'resource', 'infinity', null, p_worker_name, t);
            v_worker := coalesce(v_worker, (select w.detail from worker w where w.id = p_worker), '{}');
            verdict := case when until is null then 'finished' when v_worker -> 'reads' ? 'resource/1' then 'resource' else 'not_due' end;
            state := case when until is null then 'failed' else 'queued' end;
            return next; continue;
          end if;
          g_holding := g_holding || i;
        end if;
        needs := needs_of_job(j);
        v_worker := coalesce(v_worker, (select w.detail from worker w where w.id = p_worker), '{}');
        g_needy := g_needy || i;
      end if;

      verdict := 'granted';
      number := s.number + 1;
      s.lease_until := t + j.lease;
      g_index := g_index || i; g_at := g_at || t; g_until := g_until || s.lease_until;
      g_number := g_number || number; g_fencing_number := g_fencing_number || fencing_number;
    end if;

    state := 'running'; until := s.lease_until;
    lease_seconds := date_part('epoch', s.lease_until - t);
    time_limit_seconds := date_part('epoch', j.time_limit);
    repeatable := j.repeatable; checked := j.payload_fingerprint is not null; type := j.type; payload := j.payload::text;
    key := j.key; submitted_by := j.submitted_by; tags := j.tags; deadline := s.deadline; traceparent := j.traceparent;
    v_bytes := v_bytes + octet_length(payload);
    return next;
  end loop;

  update job_state x set state = 'running', waiting = null, wait_until = null, wait_detail = null,
      attempt_id = p_attempts[g.i], fencing_number = g.fencing_number, reported = false, started = false, number = g.number,
      charged = x.charged + 1, lease_until = g.until, first_claimed_at = coalesce(x.first_claimed_at, g.at),
      holds = g.i = any (g_holding), unplaced_since = null
    from unnest(g_index, g_at, g_until, g_number, g_fencing_number) g (i, at, until, number, fencing_number)
    where x.job_id = p_jobs[g.i];
  insert into attempt (id, job_id, number, fencing_number, worker_id, worker, login, route, ticket, redelivered, delivered_at,
      claimed_at, lease_first_until, lease_last_until, capabilities)
    select p_attempts[g.i], p_jobs[g.i], g.number, g.fencing_number, p_worker, p_worker_name, session_user, p_routes[g.i],
        p_tickets[g.i], p_redelivered[g.i], p_delivered_at[g.i], g.at, g.until, g.until,
        case when g.i = any (g_needy) then v_worker -> 'capabilities' end
      from unnest(g_index, g_at, g_until, g_number, g_fencing_number) g (i, at, until, number, fencing_number);
  insert into event (at, job_id, attempt_id, kind, state, detail)
    select g.at, p_jobs[g.i], p_attempts[g.i], 'claimed', 'running',
        jsonb_build_object('number', g.number, 'fencing_number', g.fencing_number::text, 'worker', p_worker_name, 'lease_until', rfc3339(g.until))
      from unnest(g_index, g_at, g_until, g_number, g_fencing_number) g (i, at, until, number, fencing_number);
end $$;
