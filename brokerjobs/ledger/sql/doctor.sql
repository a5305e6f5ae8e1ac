-- What `brokerjobs doctor` looks at: how the ledger was set up, who may call what, who is there, and what waits. It judges
-- nothing, and reads nothing of any job but its route. Every part is bounded.
-- Processes that live are taken as in live_workers. Of other logins' sessions the owner sees no times unless it is a member
-- of pg_read_all_stats: `hidden` says how many those are.
create or replace function doctor() returns jsonb
language plpgsql stable security definer set search_path = brokerjobs, pg_temp as $$
declare
  t timestamptz := clock();
  v_living worker[] := array(
    select w from worker w
      where w.state <> 'stopped'
        and w.heartbeat_at > t - make_interval(secs => greatest(5, 3.5 * coalesce(number_in(w.detail, 'heartbeat_seconds'), 10)))
      order by w.role, w.name limit 1000);
begin
  return jsonb_build_object(
    'clock', rfc3339(t),
    'schema_version', (select m.schema_version from meta m), 'oldest_code', (select m.oldest_code from meta m),
    'migrations', (select jsonb_object_agg(m.name, m.checksum) from migration m),
    'functions', (select jsonb_object_agg(p.proname, jsonb_build_object('body', encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'),
        'definer', p.prosecdef, 'settings', coalesce(to_jsonb(p.proconfig), '[]')))
      from pg_proc p where p.pronamespace = 'brokerjobs'::regnamespace and p.prorettype <> 'trigger'::regtype),
    'may', (select jsonb_object_agg(r.rolname, (select coalesce(jsonb_agg(distinct p.proname), '[]') from pg_proc p
        where p.pronamespace = 'brokerjobs'::regnamespace and has_function_privilege(r.oid, p.oid, 'execute')
          and has_schema_privilege(r.oid, 'brokerjobs', 'usage')))
      from pg_roles r where r.rolname = session_user or r.rolname in (select x.login from unnest(v_living) x)
        or r.rolname in ('brokerjobs_producer', 'brokerjobs_worker', 'brokerjobs_coordinator', 'brokerjobs_reader',
          'brokerjobs_operator')),
    'login', session_user,
    'partitions', (select coalesce(jsonb_agg(c.relname order by c.relname), '[]') from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'event'::regclass),
    'services', (select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'holder', s.holder_name,
        'seconds_left', date_part('epoch', s.until - t)) order by s.name), '[]') from service s),
    'processes', (select coalesce(jsonb_agg(jsonb_build_object('name', x.name, 'role', x.role, 'login', x.login, 'routes', x.routes,
        'state', x.state, 'leaked', coalesce(number_in(x.detail, 'leaked_threads'), 0), 'offset_seconds', date_part('epoch', x.observed_at - x.heartbeat_at))), '[]') from unnest(v_living) x),
    'gone', (select jsonb_build_object('processes', count(*), 'names', (array_agg(w.name order by w.heartbeat_at desc))[1:3],
        'last_seconds', date_part('epoch', t - max(w.heartbeat_at))) from worker w
      where w.state <> 'stopped' and w.heartbeat_at > t - interval '1 day' and w.id <> all (array(select x.id from unnest(v_living) x))),
    'types', (select coalesce(jsonb_agg(jsonb_build_object('namespace', y.namespace, 'name', y.name, 'route', route_name(y.namespace, y.queue, y.needs_hash, 'normal'),
        'time_limit_seconds', date_part('epoch', y.time_limit)) order by y.namespace, y.name), '[]') from job_type y),
    'routes', (select coalesce(jsonb_agg(jsonb_build_object('name', r.name, 'namespace', r.namespace, 'declared', r.declared_at is not null)
        order by r.name), '[]') from route r where r.wanted and r.retired_at is null),
    'quarantined', (select coalesce(jsonb_object_agg(q.reason, q.times), '{}') from (
        select x.reason, count(*) as times from (select y.reason from quarantine y where y.at > t - interval '1 day'
          order by y.id desc limit 10000) x group by x.reason order by count(*) desc limit 20) q),
    'outbox', (select jsonb_build_object('messages', count(*), 'oldest_seconds', date_part('epoch', t - min(x.made_at)))
      from (select o.made_at from outbox o where o.hold_until <= t order by o.xid limit 10000) x),
    'waiting', (select coalesce(jsonb_object_agg(w.route, w.jobs), '{}') from (
        select j.route, count(*) as jobs from (select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery'
          order by s.job_id limit 10000) x join job j on j.id = x.job_id group by j.route) w),
    'probes', (select coalesce(jsonb_object_agg(p.route, jsonb_build_object('out', p.out, 'oldest_seconds', p.oldest)), '{}') from (
        select x.route, count(*) as out, date_part('epoch', t - min(x.made_at)) as oldest from (
          select y.route, y.made_at from probe y where y.returned_at is null order by y.route, y.made_at limit 10000) x
          group by x.route order by oldest desc limit 1000) p),
    'reviews', (select count(*) from (select from review v where v.closed_at is null limit 10000) x),
    'stores', artifact_stores(t),
    'sessions', (select jsonb_build_object('hidden', count(*) filter (where a.query = '<insufficient privilege>'),
        'oldest', (select jsonb_build_object('seconds', date_part('epoch', clock_timestamp() - o.xact_start), 'pid', o.pid,
          'login', o.usename, 'state', o.state) from pg_stat_activity o where o.datname = current_database()
            and o.pid <> pg_backend_pid() and o.xact_start is not null order by o.xact_start limit 1))
      from pg_stat_activity a where a.datname = current_database()),
    'prepared_seconds', (select date_part('epoch', clock_timestamp() - min(p.prepared)) from pg_prepared_xacts p where p.database = current_database()));
end $$;
