-- Takes or keeps the lead of a coordinator service for p_seconds; 0 gives it up. Part of every tick's own statement.
create or replace function lead(p_service text, p_process uuid, p_name text, p_seconds double precision) returns boolean
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp as $$
declare
  v service;
  t timestamptz;
begin
  select * into v from service x where x.name = p_service for update skip locked;
  if not found then
    if p_seconds <= 0 or exists (select from service x where x.name = p_service) then
      return false;
    end if;
    insert into service values (p_service, p_process, p_name, clock() + make_interval(secs => p_seconds), clock(), clock())
      on conflict do nothing;
    return found;
  end if;
  t := clock();
  if v.holder <> p_process and v.until > t then
    return false;
  end if;
  if p_seconds <= 0 then
    update service x set until = t where x.name = p_service and x.holder = p_process;
    return false;
  end if;
  update service x set holder = p_process, holder_name = p_name, until = t + make_interval(secs => p_seconds), ticked_at = t,
      gap_ended_at = case when t - v.ticked_at > interval '5 seconds' then t else v.gap_ended_at end
    where x.name = p_service;
  return true;
end $$;
