-- As outbox_messages, for relays of before, which know doorbells and dead letters alone and would ring for anything else.
create or replace function outbox_take(p_from xid8, p_limit integer)
returns table (kind text, ticket uuid, job_id uuid, namespace text, type text, route text, traceparent text, body text, mark xid8)
language sql volatile security definer set search_path = brokerjobs, pg_temp as $$
  select * from outbox_messages(p_from, p_limit, '{doorbell,dead}')
$$;
