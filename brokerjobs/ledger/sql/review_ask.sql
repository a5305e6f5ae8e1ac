-- Takes up open reviews that a worker's reconcilers may ask the outside about, the longest waiting first, each for p_seconds:
-- nobody else is given them meanwhile. What was found out is said by review_found, with this `asked`; until then `ask_at` is when
-- the asking began.
create or replace function review_ask(p_by text, p_namespace text, p_types text[], p_seconds double precision, p_limit integer)
returns table (
  review_id uuid, job_id uuid, asked integer, type text, payload text, key text, submitted_by text, tags jsonb, cause text,
  opened_at timestamptz, effects jsonb)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  with taken as (
    update review v set asked = v.asked + 1, asking_by = p_by, ask_at = c.at, asking_until = c.at + make_interval(secs => p_seconds)
      from (select clock() as at) c
      where v.id in (
        select r.id from review r join job j on j.id = r.job_id, (select clock() as at) n
          where r.closed_at is null and j.namespace = p_namespace and j.type = any (p_types)
            and coalesce(r.ask_at, r.opened_at) <= n.at and coalesce(r.asking_until, r.opened_at) <= n.at
          order by coalesce(r.ask_at, r.opened_at) limit p_limit for update of r skip locked)
      returning v.*)
  select v.id, v.job_id, v.asked, j.type, j.payload::text, j.key, j.submitted_by, j.tags, v.cause, v.opened_at, open_effects(v.job_id)
    from taken v join job j on j.id = v.job_id
$$;
