-- Gives up uploads that have failed, with the reason that their worker gives: discarded, their objects are the sweeper's
-- | ready (it is whole: it stays) | unknown.
create or replace function artifact_discard(p_ids uuid[], p_attempts uuid[], p_why text[])
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
      select * into a from artifact x where x.id = p_ids[i] and x.attempt_id = p_attempts[i] for update;
    end if;
    t := clock();
    if a.id is null then
      verdict := 'unknown';
    elsif a.ready_at is not null then
      verdict := 'ready';
    else
      verdict := 'discarded';
      update artifact x set state = 'discarded', removing_at = t, removing_why = 'incomplete', removing_detail = left(p_why[i], 500), look_at = t
        where x.id = a.id and x.removing_at is null;
    end if;
    return next;
  end loop;
end $$;
