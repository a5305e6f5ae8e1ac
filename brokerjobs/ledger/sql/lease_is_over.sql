-- May a running job's attempt be given up? Its lease has run out, and has passed once more after the server's start and
-- after the last gap in the reaper's ticks: nobody could renew while the ledger was away, and healthy attempts must not
-- all expire when it returns. While no reaper ticks at all the gap has not ended, and nothing expires.
create or replace function lease_is_over(s job_state, p_lease interval, t timestamptz)
returns boolean language plpgsql volatile as $$
declare
  v_reaper service;
begin
  if s.lease_until > t then
    return false;
  end if;
  select * into v_reaper from service where name = 'reaper';
  if not found or t - v_reaper.ticked_at > interval '5 seconds' then
    return false;
  end if;
  return t >= greatest(pg_postmaster_start_time(), v_reaper.gap_ended_at) + p_lease;
end $$;
