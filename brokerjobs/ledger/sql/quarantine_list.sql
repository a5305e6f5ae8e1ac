-- What was recorded of messages that went to quarantine, newest first, filtered; p_before is the number of the last one seen.
create or replace function quarantine_list(p_namespace text, p_reason text, p_before bigint, p_limit integer)
returns table (id bigint, at timestamptz, worker text, route text, reason text, ticket uuid, job_id uuid, digest text)
language sql stable security definer set search_path = brokerjobs, pg_temp as $$
  select q.id, q.at, q.worker, q.route, q.reason, q.ticket, q.job_id, q.digest from quarantine q
    where (p_before is null or q.id < p_before) and (p_reason is null or q.reason = p_reason)
      and (p_namespace is null or starts_with(q.route, p_namespace || '.q.'))
    order by q.id desc limit least(p_limit, 1000)
$$;
