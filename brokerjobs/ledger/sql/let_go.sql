-- What a job leaves when its attempt closes, or when it waits no more: its own places in the lines, and whoever is next in the
-- lines of its resources is rung.
create or replace function let_go(p_job uuid, t timestamptz) returns void language plpgsql volatile as $$
declare
  n record;
begin
  delete from waiter w where w.job_id = p_job;
  for n in
    select j.namespace, x.need ->> 'name' as name
      from job j cross join lateral jsonb_array_elements(j.resources) with ordinality x (need, place) where j.id = p_job order by x.place
  loop
    perform wake(n.namespace, n.name, t);
  end loop;
end $$;
