-- Public: cancels one job in the caller's transaction, from any language. Verdicts as for cancel.
create or replace function cancel_v1(p_job uuid, p_reason text, p_by text default session_user)
returns table (verdict text, state text)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  select * from cancel(p_job, p_by, p_reason)
$$;
