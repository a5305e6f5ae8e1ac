-- Why a result cannot be its job's because of an artifact that it names; null if nothing is wrong. Each must be ready, there
-- to stay, the one that the result describes, and of the attempt of the locked state row, or of another job's result.
create or replace function artifacts_problem(s job_state, p_result jsonb) returns text language plpgsql stable as $$
declare
  v_why text;
begin
  if strpos(p_result::text, 'brokerjobs.artifact') = 0 then
    return null;
  end if;
  select format('its result names the artifact %s%s, ', left(coalesce(n.id, 'without an id'), 40), ' (' || quote_literal(left(a.name, 100)) || ')') || case
        when a.id is null then 'which the ledger does not know'
        when a.attempt_id <> s.attempt_id and o.job_id is null then 'whose job is gone'
        when a.attempt_id <> s.attempt_id and a.job_id = s.job_id then 'which another attempt made'
        when a.attempt_id <> s.attempt_id and not artifact_is_visible(a, o) then 'which is not part of the result of its own job'
        when a.state = 'staging' then 'which is not ready: its upload has not ended'
        when a.removing_at is not null then format('which is being removed (%s)', a.removing_why)
        when a.state <> 'ready' then format('which is not ready but %s', a.state)
        when n.sha256 <> a.sha256 then 'with another SHA-256 than was recorded'
        when n.size <> a.size::text then 'with another size than was recorded' end
    into v_why
    from artifacts_named(p_result) n
      left join artifact a on a.id = case when n.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then n.id::uuid end
      left join job_state o on o.job_id = a.job_id
    where a.id is null or a.state <> 'ready' or a.removing_at is not null or n.sha256 <> a.sha256 or n.size <> a.size::text
      or a.attempt_id <> s.attempt_id and (o.job_id is null or not artifact_is_visible(a, o))
    order by n.id limit 1;
  return v_why;
end $$;
