-- Rings jobs that wait for a delivery on a route, in the order of their ids, at most p_limit after p_after: for a queue that
-- was made anew. Answers how many were rung and the last of them, null at the end; a ring too many costs a message, never a job.
create or replace function ring_again(p_route text, p_by text, p_after uuid, p_limit integer)
returns table (rung integer, last uuid)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  with waiting as (
    select j.id from job j join job_state s on s.job_id = j.id
      where j.id > p_after and j.route = p_route and s.state = 'queued' and s.waiting = 'delivery'
      order by j.id limit p_limit
  ), rung as (
    insert into outbox (kind, job_id, made_at, hold_until) select 'doorbell', w.id, clock(), clock() from waiting w returning job_id
  ), noted as (
    insert into event (at, job_id, kind, state, detail)
      select clock(), r.job_id, 'rung_again', 'queued', jsonb_build_object('by', p_by) from rung r
  )
  select count(*)::integer, (array_agg(w.id order by w.id desc))[1] from waiting w
$$;
