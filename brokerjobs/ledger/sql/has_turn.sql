-- May a job that needs one of p_limit places of a resource, p_held of which are held, take one now? Not before those who wait
-- for it longer and have not let their turn pass (p_since: since when it waits itself, null if it is new). Jobs may disagree on
-- the limit: then the smallest counts of those in front, so that one who needs the resource alone gets it one day.
create or replace function has_turn(
  p_namespace text, p_name text, p_job uuid, p_since timestamptz, p_limit integer, p_held integer, t timestamptz)
returns boolean language sql stable as $$
  select p_limit > p_held and count(*) < least(p_limit, min(o.places)) - p_held
    from (
      select (select (n ->> 'limit')::integer from job j, jsonb_array_elements(j.resources) n where j.id = w.job_id and n ->> 'name' = p_name) as places
        from waiter w
        where w.namespace = p_namespace and w.name = p_name and (w.since, w.job_id) < (coalesce(p_since, 'infinity'), p_job) and not is_late(w, t)
        order by w.since, w.job_id limit greatest(p_limit - p_held, 0)) o
$$;
