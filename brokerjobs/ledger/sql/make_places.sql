-- Makes the places of a resource if they are missing: 1 to p_limit, in one statement, so that the last one stands for all.
-- Answers whether they are there now. If another transaction, still open, is making them, nobody waits for it: until then
-- claims take the resource for busy, and the scheduler makes what is still missing.
create or replace function make_places(p_namespace text, p_name text, p_limit integer) returns boolean
language plpgsql volatile set lock_timeout = '50ms' as $$
begin
  if exists (select from resource r where (r.namespace, r.name, r.place) = (p_namespace, p_name, p_limit)) then
    return true;
  end if;
  insert into resource (namespace, name, place) select p_namespace, p_name, n from generate_series(1, p_limit) n on conflict do nothing;
  return true;
exception when lock_not_available or deadlock_detected then
  return false;
end $$;
