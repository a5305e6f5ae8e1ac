-- Has a route a job that has not ended? Looked for among the unfinished jobs alone, by the indexes and tables that find each kind.
create or replace function has_unfinished(p_route text) returns boolean language sql stable as $$
  select exists (
    select from (
        select s.job_id from job_state s where s.state = 'running'
        union all
        select s.job_id from job_state s where s.state = 'queued' and s.waiting = 'delivery'
        union all
        select s.job_id from job_state s where s.state = 'queued' and s.wait_until is not null
        union all
        select v.job_id from review v where v.closed_at is null
        union all
        select k.job_id from parked k
        union all
        select k.job_id from parked_queue k
        union all
        select w.job_id from waiter w) x
      join job j on j.id = x.job_id join job_state s on s.job_id = x.job_id
      where j.route = p_route and s.finished_at is null)
$$;
