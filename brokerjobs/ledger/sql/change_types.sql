-- Registers job types and changes the terms of known ones, for set-up alone. Answers each: added | same | changed.
create or replace function change_types(p_namespace text, p_types jsonb)
returns table (name text, verdict text, was jsonb, wanted jsonb)
language sql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
  select * from write_types(p_namespace, p_types, true)
$$;
