-- Is it known that doing an attempt again can do no harm, and how is that known? As JSON {safe, why}; recorded with every
-- attempt that ended without an accepted result. What sends a job to review is what makes a repetition unsafe (rule R8).
create or replace function safe_to_retry(s job_state, j job, d decision, p_failure jsonb) returns jsonb
language sql immutable as $$
  select case
    when d.state = 'review' then jsonb_build_object('safe', false, 'why', d.reason)
    when not j.repeatable and coalesce((p_failure ->> 'returned')::boolean, false) then jsonb_build_object('safe', false,
      'why', 'its handler had given its result, which was refused: what it does has been done')
    when p_failure ->> 'class' in ('invalid', 'policy') and (p_failure ->> 'classified')::boolean then jsonb_build_object('safe', true,
      'why', format('nothing is unknown, but it is %s: it would fail again', p_failure ->> 'class'))
    when (p_failure ->> 'classified')::boolean then jsonb_build_object('safe', true,
      'why', 'its handler, or its type, said how the attempt ended, and that it may run again')
    when j.repeatable then jsonb_build_object('safe', true, 'why', 'its type is repeatable')
    when s.started then jsonb_build_object('safe', false, 'why', 'it had started, and its type is not repeatable')
    else jsonb_build_object('safe', true, 'why', 'its handler had not started') end
$$;
