-- Public: a consumer says that the staged copy is another than the recorded one: with this size and hash, or (null) missing.
-- noted, the first time for good: it is shown as hash_mismatch until it is acknowledged or removed | matches (size and hash
-- are the recorded ones) | removed (it is about to be removed, or is: nothing is wrong) | unknown (or not yet ready)
-- | not_accepted (its attempt may still be accepted: a word of somebody who looks on must not refuse its result; nothing is noted).
create or replace function artifact_mismatch_v1(p_id uuid, p_by text, p_size bigint, p_sha256 text) returns text
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  a artifact;
  s job_state;
  n attempt;
  t timestamptz;
begin
  perform require_read_committed();
  if coalesce(p_by, '') = '' then
    raise exception 'who has found it is to be said' using errcode = 'invalid_parameter_value';
  elsif p_size < 0 or (p_size is null) <> (p_sha256 is null) or lower(p_sha256) !~ '^[0-9a-f]{64}$' then
    raise exception 'what was found is its size in bytes and its SHA-256 in 64 hexadecimal digits, or null and null if it is missing'
      using errcode = 'invalid_parameter_value';
  end if;
  select * into a from artifact x where x.id = p_id;
  if a.id is null or a.ready_at is null then
    return 'unknown';
  end if;
  select * into s from job_state x where x.job_id = a.job_id;
  select * into n from attempt x where x.id = a.attempt_id;
  if not artifact_is_visible(a, s) and may_be_accepted(s, n) then
    return 'not_accepted';
  end if;
  select * into a from artifact x where x.id = p_id for update;
  t := clock();
  if a.removing_at is not null then
    return 'removed';
  elsif (p_size, lower(p_sha256)) is not distinct from (a.size, a.sha256) then
    return 'matches';
  end if;
  update artifact x set state = case x.state when 'ready' then 'hash_mismatch' else x.state end,
      mismatch = jsonb_build_object('at', rfc3339(t), 'by', left(p_by, 1000), 'size', p_size, 'sha256', lower(p_sha256))
    where x.id = a.id and x.mismatch is null;
  return 'noted';
end $$;
