-- Makes the routes by which jobs of a type come, one a lane, and notes that they do. The lane `normal` is wanted at once, also
-- if it was retired, the others at their first use.
create or replace function route_of_type(y job_type, t timestamptz) returns void language plpgsql volatile as $$
declare
  v_name text;
  v_lane text;
begin
  foreach v_lane in array '{normal,high,low}'::text[] loop
    v_name := route_name(y.namespace, y.queue, y.needs_hash, v_lane);
    insert into route (name, namespace, queue, needs, needs_hash, lane, wanted, made_at)
      values (v_name, y.namespace, y.queue, worker_needs(y.needs), y.needs_hash, v_lane, v_lane = 'normal', t) on conflict do nothing;
    if not exists (select from route r where r.name = v_name
        and (r.namespace, r.queue, r.lane) = (y.namespace, y.queue, v_lane) and r.needs_hash is not distinct from y.needs_hash) then
      raise exception 'job type % of namespace %: another queue has the route %; give its queue another name', y.name, y.namespace, v_name
        using errcode = 'invalid_parameter_value';
    end if;
    update route r set wanted = true where r.name = v_name and v_lane = 'normal' and not r.wanted;
    insert into route_type (route, namespace, type, since) values (v_name, y.namespace, y.name, t) on conflict do nothing;
  end loop;
end $$;
