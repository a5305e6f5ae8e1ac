-- Public: call it last in your own transaction. Your writes and the accepted result commit together; raises BJ001, BJ002
-- or BJ003 otherwise. Answers whether the result was late. Never call it again after a COMMIT without an answer: ask.
create or replace function complete_v1(
  p_job uuid, p_attempt uuid, p_fencing_number bigint, p_result jsonb, p_observed_at timestamptz default null)
returns boolean
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  s job_state := hold_place_or_raise(p_job, p_attempt, p_fencing_number, false);
  t timestamptz := clock();
  v_refusal text := refusal_of(s, t);
  v_late boolean := s.state <> 'running' or s.lease_until <= t;
begin
  if v_refusal is not null then
    raise exception 'attempt % of job % is stale: %', p_attempt, p_job, v_refusal using errcode = 'BJ003', detail = v_refusal;
  end if;
  perform accept_results(array[p_job], array[p_attempt], array[v_late], array[s.lease_until], array[t], array[p_result],
    array[p_observed_at], array[null::timestamptz], array[0], array[null::double precision], array[null::double precision]);
  return v_late;
end $$;
