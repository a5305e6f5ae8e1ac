-- By how much the delay before a job's next attempt is stretched: what the retry budget of its queue says, but never so far
-- that elapsed time or deadline would end a job that may be retried without it. Read without a lock; what nobody has
-- written for half a minute counts no more.
create or replace function stretch_of(s job_state, j job, p_charged integer, t timestamptz) returns double precision
language sql stable as $$
  select greatest(1, least(b.stretch,
      extract(epoch from least(s.first_claimed_at + j.retry_elapsed, s.deadline, t + interval '365 days') - t)::double precision
        / nullif(longest_delay(j, p_charged), 0)))
    from retry_budget b where b.route = j.route and b.until > t and b.stretch > 1
  union all select 1 limit 1
$$;
