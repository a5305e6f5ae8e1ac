-- Notes that a route has a job, about once an hour, and that it is wanted: at the first use of its lane, or after it was
-- retired. Nobody waits for its row: whoever cannot have it leaves that to the first doorbell that is refused. One that is not
-- declared yet, or declared again just now, is left to its coordinator.
create or replace function use_route(p_name text, t timestamptz) returns void language plpgsql volatile as $$
begin
  if exists (select from route r where r.name = p_name and (not r.wanted or r.declared_at is not null and r.retired_at is null and coalesce(r.used_at < t - interval '1 hour', true))) then
    update route r set used_at = t, wanted = true
      where r.name in (select x.name from route x where x.name = p_name for update skip locked);
  end if;
end $$;
