-- What a consumer said of its own copy of an artifact; null if none did.
create or replace function acknowledgement_of(a artifact) returns jsonb language sql immutable as $$
  select case when a.acknowledged_at is not null then jsonb_build_object('at', rfc3339(a.acknowledged_at),
    'by', a.acknowledged_by, 'login', a.acknowledged_login, 'copied_to', a.copied_to) end
$$;
