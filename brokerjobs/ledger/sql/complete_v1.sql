-- Public: call it last in your own transaction. Your writes and the accepted result commit together; raises BJ001, BJ002
-- or BJ003 otherwise, and 22023 for a result over its limit, that no worker could read, or that names an artifact which is
-- not ready. Answers whether the result was late. Never call it again after a COMMIT without an answer: ask.
create or replace function complete_v1(
  p_job uuid, p_attempt uuid, p_fencing_number bigint, p_result jsonb, p_observed_at timestamptz default null)
returns boolean
language plpgsql volatile security definer set search_path = brokerjobs, pg_temp set jit = off set enable_seqscan = off set lock_timeout = '2s' as $$
declare
  v_problem text := result_problem(p_job, p_result);
  s job_state;
  t timestamptz;
  v_refusal text;
  v_late boolean;
begin
  if v_problem is not null then
    raise exception 'the result of job % cannot be accepted: %', p_job, v_problem using errcode = 'invalid_parameter_value';
  end if;
  s := hold_place_or_raise(p_job, p_attempt, p_fencing_number, false);
  t := clock();
  v_refusal := refusal_of(s, t);
  v_late := s.state <> 'running' or s.lease_until <= t;
  if v_refusal is not null then
    raise exception 'attempt % of job % is stale: %', p_attempt, p_job, v_refusal using errcode = 'BJ003', detail = v_refusal;
  end if;
  v_problem := artifacts_problem(s, p_result);
  if v_problem is not null then
    raise exception 'the result of job % cannot be accepted: %', p_job, v_problem using errcode = 'invalid_parameter_value';
  end if;
  perform accept_results(array[p_job], array[p_attempt], array[v_late], array[s.lease_until], array[t], array[p_result],
    array[p_observed_at], array[null::timestamptz], array[0], array[null::double precision], array[null::double precision]);
  if s.holds then
    perform let_go(p_job, t);
  end if;
  return v_late;
end $$;
