-- Registers job types that are missing, for workers; known ones keep their terms. Answers each: added | same | differs.
create or replace function register_types(p_namespace text, p_types jsonb)
returns table (name text, verdict text, was jsonb, wanted jsonb)
language sql volatile security definer set search_path = brokerjobs, pg_temp set lock_timeout = '2s' as $$
  select * from write_types(p_namespace, p_types, false)
$$;
