-- The retry budget of each queue (route): attempts that follow a failed or lost one may be a tenth of the first attempts of
-- the last five minutes, and a hundred are always free. What is above stretches the delays of new retries, tenfold at most.
-- Counts the attempts that were claimed since the last count by their ids, which begin with the time of the worker that
-- made them (RFC 9562): no index has to be kept for it. One whose worker's clock is off counts later, or not at all.
-- Any number of copies may call it: whoever does not get the row counts nothing. Answers the queues that are stretched.
create or replace function stretch_retries(p_limit integer)
returns table (route text, first_attempts bigint, retries bigint, stretch double precision)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  c retry_counting;
  t timestamptz;
begin
  if p_limit <= 0 then
    return;
  end if;
  select * into c from retry_counting for update skip locked;
  if not found then
    return;
  end if;
  t := clock();
  update retry_counting set counted_to = t;
  insert into retry_count (route, at, first_attempts, retries)
    select a.route, t, count(*) filter (where a.number = 1), count(*) filter (where a.number > 1 and exists (
        select from attempt p where p.job_id = a.job_id and p.number = a.number - 1 and p.closed_as in ('failed', 'timed_out')))
      from (select x.job_id, x.number, x.route from attempt x
        where x.id >= first_uuid7(greatest(c.counted_to, t - interval '30 seconds')) and x.id < first_uuid7(t)
        order by x.id limit p_limit) a
      group by a.route
    on conflict do nothing;
  delete from retry_count x where x.at <= t - interval '5 minutes';
  delete from retry_budget b where b.until <= t;
  insert into retry_budget as b (route, first_attempts, retries, stretch, until)
    select x.route, sum(x.first_attempts), sum(x.retries),
        greatest(1, least(10, sum(x.retries) / greatest(sum(x.first_attempts) * 0.1, 100))), t + interval '30 seconds'
      from retry_count x group by x.route
    on conflict (route) do update set first_attempts = excluded.first_attempts, retries = excluded.retries,
      stretch = excluded.stretch, until = excluded.until;
  return query select b.route, b.first_attempts, b.retries, b.stretch from retry_budget b where b.stretch > 1 order by b.route;
end $$;
