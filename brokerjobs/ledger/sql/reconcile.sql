-- Finds doorbells that the broker lost: walks through the jobs that wait for a delivery, p_rows at a call, and rings those
-- again, at most p_limit, that were rung before a probe that came back (p_tickets) and have no ring in the outbox. Age
-- alone is never a reason. A walk begins with p_after null, which chooses the probes that may be settled.
-- Rows of kind `probe`: publish one with this ticket, its route has jobs that wait. Last a row of kind `walk`: how many
-- were rung, and with what (tickets, last) the walk goes on; last is null at its end.
-- Nothing is locked: a ring too many costs a message, never a job.
create or replace function reconcile(
  p_by text, p_tickets uuid[], p_after uuid, p_rows integer, p_limit integer, p_lost interval, p_hand_back interval)
returns table (kind text, ticket uuid, route text, namespace text, rung integer, tickets uuid[], last uuid)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  t timestamptz := clock();
  v_open text[];
  v_before timestamptz;
  v_looked integer := 0;
  v_routes text[];
begin
  if p_rows <= 0 then
    return;
  end if;
  kind := 'walk'; rung := 0; tickets := p_tickets;
  if p_after is null then
    tickets := array(select p from probes_to_settle(t, p_hand_back) p);
    perform declare_missing_routes(t);
    delete from probe p where p.made_at < t - interval '7 days';
  end if;
  v_open := array(select r from routes_to_probe(t, p_lost) r);
  v_before := (select max(p.made_at) from probe p where p.ticket = any (tickets));

  if v_before is not null or cardinality(v_open) > 0 then
    with looked as materialized (
      select s.job_id, coalesce(s.rung_at, '-infinity') as rung_at from job_state s
        where s.state = 'queued' and s.waiting = 'delivery' and s.job_id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
        order by s.job_id limit p_rows
    ), placed as materialized (
      select l.job_id, l.rung_at, j.route from looked l join job j on j.id = l.job_id
        where l.rung_at < v_before or cardinality(v_open) > 0
    ), owed as materialized (
      select o.job_id from outbox o where o.kind = 'doorbell' and v_before is not null
    ), lost as (
      select l.job_id, l.rung_at, p.returned_at from placed l join probe p on p.route = l.route and p.ticket = any (tickets)
        where l.rung_at < p.made_at and not exists (select from owed o where o.job_id = l.job_id)
        order by l.job_id limit p_limit
    ), made as (
      insert into outbox (kind, job_id, made_at, hold_until) select 'doorbell', l.job_id, t, t from lost l
    ), noted as (
      insert into event (at, job_id, kind, state, detail)
        select t, l.job_id, 'rung_again', null, jsonb_strip_nulls(jsonb_build_object('by', 'reconcile', 'coordinator', p_by,
          'rung_at', case when isfinite(l.rung_at) then rfc3339(l.rung_at) end, 'probe_returned_at', rfc3339(l.returned_at))) from lost l
    )
    select (select count(*) from looked), (select count(*) from lost),
        case when (select count(*) from lost) < p_limit then (select l.job_id from looked l order by l.job_id desc limit 1)
          else (select l.job_id from lost l order by l.job_id desc limit 1) end,
        array(select distinct l.route from placed l where l.route = any (v_open))
      into v_looked, rung, last, v_routes;
  end if;

  if v_looked < p_rows and rung < p_limit then
    last := null;
    update probe p set settled_at = t where p.ticket = any (tickets) and p.settled_at is null;
    delete from probe p using probe s where s.ticket = any (tickets) and p.route = s.route and p.made_at < s.made_at;
  end if;
  return query with made as (
      insert into probe (ticket, route, made_at) select gen_random_uuid(), r, t from unnest(v_routes) r returning ticket, route)
    select 'probe', m.ticket, m.route, r.namespace, null::integer, null::uuid[], null::uuid from made m join route r on r.name = m.route;
  return next;
end $$;
