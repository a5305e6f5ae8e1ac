-- The fencing kit: lets another PostgreSQL database refuse what superseded attempts write. Two objects, made by
-- `brokerjobs fence install --dsn DSN` in the schema that is first on the search path; running this again changes nothing.
--
-- Call it in your own transaction, with the number of the attempt that runs (ctx.attempt.fencing_number):
--
--   begin;
--   select brokerjobs_fence('account 4711', 1796021938734);
--   update account set balance = balance - 990 where id = 4711;
--   commit;
--
-- It locks the resource's row until the end of the transaction, so attempts come one after the other, and raises BJ003 for a
-- number that is smaller than the highest one that a committed transaction has shown: that attempt was superseded.
create table if not exists brokerjobs_fence (
  resource text primary key,
  highest bigint not null
);

create or replace function brokerjobs_fence(p_resource text, p_number bigint) returns void
language plpgsql volatile security definer set search_path from current as $$
declare
  v_highest bigint;
begin
  insert into brokerjobs_fence as f (resource, highest) values (p_resource, p_number)
    on conflict (resource) do update set highest = excluded.highest where f.highest <= excluded.highest;
  if not found then
    select f.highest into v_highest from brokerjobs_fence f where f.resource = p_resource;
    raise exception 'fencing number % for % is stale: % was shown before', p_number, p_resource, v_highest
      using errcode = 'BJ003', hint = 'A newer attempt of the job has written here; let this transaction roll back.';
  end if;
end $$;
