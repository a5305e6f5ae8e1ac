-- Registers job types and their routes. Missing ones are inserted; others are changed only if p_change (brokerjobs setup),
-- since jobs carry the terms of their submit and old workers that restart must not flip them back.
-- p_types: [{name, queue, repeatable, lease, time_limit, retry: {attempts, elapsed, first_delay, factor, max_delay},
-- placement_deadline, fingerprint, needs, needs_hash}], durations in seconds. Answers each type: added | same | differs | changed.
create or replace function write_types(p_namespace text, p_types jsonb, p_change boolean)
returns table (name text, verdict text, was jsonb, wanted jsonb)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  v jsonb;
  w job_type;
  y job_type;
  t timestamptz := clock();
  v_problem text;
begin
  for v in select e from jsonb_array_elements(p_types) e order by e ->> 'name' loop
    if terms_problem(v) is not null then
      raise exception 'job type % of namespace %: %', v ->> 'name', p_namespace, terms_problem(v) using errcode = 'invalid_parameter_value';
    end if;
    w := row(p_namespace, v ->> 'name', v ->> 'queue', (v ->> 'repeatable')::boolean,
      make_interval(secs => (v ->> 'lease')::double precision), make_interval(secs => (v ->> 'time_limit')::double precision),
      (v #>> '{retry,attempts}')::integer, make_interval(secs => (v #>> '{retry,elapsed}')::double precision),
      make_interval(secs => (v #>> '{retry,first_delay}')::double precision), (v #>> '{retry,factor}')::double precision,
      make_interval(secs => (v #>> '{retry,max_delay}')::double precision),
      make_interval(secs => (v ->> 'placement_deadline')::double precision), v ->> 'fingerprint', 262144, 262144, t, session_user,
      coalesce(v -> 'needs', '[]'), v ->> 'needs_hash')::job_type;
    name := w.name; was := null; wanted := null;
    insert into job_type select w.* on conflict do nothing;
    if found then
      v_problem := too_many_routes(w.namespace, route_name(w.namespace, w.queue, w.needs_hash, 'normal'));
      if v_problem is not null then
        raise exception 'job type % of namespace %: %', w.name, p_namespace, v_problem using errcode = 'invalid_parameter_value';
      end if;
      perform route_of_type(w, t);
      verdict := 'added'; return next; continue;
    end if;
    select * into y from job_type x where x.namespace = p_namespace and x.name = w.name for update;
    w.registered_at := y.registered_at; w.registered_by := y.registered_by;
    verdict := 'same';
    if y is distinct from w then
      select jsonb_object_agg(o.key, o.value), jsonb_object_agg(o.key, n.value) into was, wanted
        from jsonb_each(to_jsonb(y)) o join jsonb_each(to_jsonb(w)) n using (key) where o.value is distinct from n.value;
      verdict := case when p_change then 'changed' else 'differs' end;
      if p_change then
        v_problem := too_many_routes(w.namespace, route_name(w.namespace, w.queue, w.needs_hash, 'normal'));
        if v_problem is not null then
          raise exception 'job type % of namespace %: %', w.name, p_namespace, v_problem using errcode = 'invalid_parameter_value';
        end if;
        update job_type x set queue = w.queue, repeatable = w.repeatable, lease = w.lease, time_limit = w.time_limit,
            retry_attempts = w.retry_attempts, retry_elapsed = w.retry_elapsed, retry_first_delay = w.retry_first_delay,
            retry_factor = w.retry_factor, retry_max_delay = w.retry_max_delay, placement_deadline = w.placement_deadline,
            payload_fingerprint = w.payload_fingerprint, registered_at = t, registered_by = session_user,
            needs = w.needs, needs_hash = w.needs_hash
          where x.namespace = p_namespace and x.name = w.name;
        perform route_of_type(w, t);
      end if;
    end if;
    return next;
  end loop;
end $$;
