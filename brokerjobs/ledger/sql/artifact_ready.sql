-- Takes that uploads are whole and durable: ready | differs (it was ready before, with another size or hash) | discarded (it
-- was given up before: its object is the sweeper's) | name_used (another artifact of its attempt has become ready under its
-- name meanwhile: this one is given up) | unknown. However late: whether its attempt is accepted is another question.
create or replace function artifact_ready(p_ids uuid[], p_attempts uuid[], p_sizes bigint[], p_sha256 text[])
returns table (id uuid, verdict text)
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  a artifact;
  t timestamptz;
begin
  perform require_read_committed();
  for i in 1 .. cardinality(p_ids) loop
    id := p_ids[i];
    select * into a from artifact x where x.id = p_ids[i] and x.attempt_id = p_attempts[i];
    if a.ready_at is null then
      -- Only its worker and a tick of the sweeper ever hold an upload that has not ended.
      select * into a from artifact x where x.id = p_ids[i] and x.attempt_id = p_attempts[i] for update;
    end if;
    t := clock();
    if a.id is null then
      verdict := 'unknown';
    elsif a.ready_at is not null then
      verdict := case when (a.size, a.sha256) is distinct from (p_sizes[i], p_sha256[i]) then 'differs' else 'ready' end;
    elsif a.state = 'discarded' then
      verdict := 'discarded';
    else
      begin
        update artifact x set state = 'ready', size = p_sizes[i], sha256 = p_sha256[i], ready_at = t, look_at = t where x.id = a.id;
        verdict := 'ready';
      exception when unique_violation then
        update artifact x set state = 'discarded', removing_at = t, removing_why = 'incomplete', look_at = t,
            removing_detail = 'another artifact of its attempt was ready first under its name'
          where x.id = a.id;
        verdict := 'name_used';
      end;
    end if;
    return next;
  end loop;
end $$;
