-- Rule R1 on the resources of a locked state row whose last attempt took some: each must still carry its fencing number, its
-- place locked by this look. null: they do. resource_taken: another attempt has taken one since. locked: another transaction
-- is at one of them, which this call does not wait for (p_waits: it does).
create or replace function keeps_resources(s job_state, p_waits boolean) returns text language plpgsql volatile as $$
declare
  v_namespace text;
  v_resources jsonb;
  v_name text;
begin
  select j.namespace, j.resources into v_namespace, v_resources from job j where j.id = s.job_id;
  for v_name in select x.need ->> 'name' from jsonb_array_elements(v_resources) with ordinality x (need, place) order by x.place loop
    if p_waits then
      perform from resource r
        where r.namespace = v_namespace and r.name = v_name and r.attempt_id = s.attempt_id and r.fencing_number = s.fencing_number for update;
    else
      perform from resource r
        where r.namespace = v_namespace and r.name = v_name and r.attempt_id = s.attempt_id and r.fencing_number = s.fencing_number for update skip locked;
    end if;
    if not found then
      return case when exists (select from resource r
          where r.namespace = v_namespace and r.name = v_name and r.attempt_id = s.attempt_id and r.fencing_number = s.fencing_number)
        then 'locked' else 'resource_taken' end;
    end if;
  end loop;
  return null;
end $$;
