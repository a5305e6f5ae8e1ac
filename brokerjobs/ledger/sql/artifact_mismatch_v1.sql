-- Public: a consumer says that the staged copy is another than the recorded one: with this size and hash, or (null) missing.
-- noted, the first time for good: it is shown as hash_mismatch until it is acknowledged or removed | matches (size and hash
-- are the recorded ones) | removed (it is about to be removed, or is: nothing is wrong) | unknown (or not yet ready).
create or replace function artifact_mismatch_v1(p_id uuid, p_by text, p_size bigint, p_sha256 text) returns text
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  a artifact;
  t timestamptz;
begin
  perform require_read_committed();
  select * into a from artifact x where x.id = p_id;
  if a.id is null or a.ready_at is null then
    return 'unknown';
  end if;
  select * into a from artifact x where x.id = p_id for update;
  t := clock();
  if a.removing_at is not null then
    return 'removed';
  elsif (p_size, lower(p_sha256)) is not distinct from (a.size, a.sha256) then
    return 'matches';
  end if;
  update artifact x set state = case x.state when 'ready' then 'hash_mismatch' else x.state end,
      mismatch = jsonb_build_object('at', rfc3339(t), 'by', left(p_by, 1000), 'size', p_size, 'sha256', left(lower(p_sha256), 64))
    where x.id = a.id and x.mismatch is null;
  return 'noted';
end $$;
