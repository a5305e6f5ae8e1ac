-- What is published about a job that failed, or went into review: its record without the payload (names of resources and
-- artifacts may have parts of it), and without any result, evidence and what effects returned included.
create or replace function dead_letter(p_job uuid) returns text
language sql stable as $$
  select (r - 'payload' - 'resources' - 'artifacts' - 'result' || jsonb_build_object(
      'effects', (select coalesce(jsonb_agg(f #- '{outcome,result}' order by n), '[]') from jsonb_array_elements(r -> 'effects') with ordinality e (f, n)),
      'attempts', (select coalesce(jsonb_agg(a - 'result' order by n), '[]') from jsonb_array_elements(r -> 'attempts') with ordinality e (a, n)),
      'late_reports', (select coalesce(jsonb_agg(l - 'result' order by n), '[]') from jsonb_array_elements(r -> 'late_reports') with ordinality e (l, n)))
    )::text
  from record(p_job) r
$$;
