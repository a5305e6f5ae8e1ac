-- A fact has made known what a review was about: decides the job anew, as if its last attempt ended now (rule R8: a cancel and
-- a deadline are obeyed). Answers where it goes; it stays in review if that attempt's end is unknown for another reason.
create or replace function leave_review(s job_state, p_attempt uuid, t timestamptz)
returns text language plpgsql volatile as $$
declare
  a attempt;
  j job;
  d decision;
begin
  select * into j from job x where x.id = s.job_id;
  select * into a from attempt x where x.id = s.attempt_id;
  d := decide(s, j,
    case when a.closed_as = 'timed_out' then 'lost' when a.closed_as = 'released' then 'released'
      when a.reported_as = 'completed' then 'refused' else 'failed' end,
    coalesce(a.failure, '{"class": "temporary"}'), t);
  if d.state <> 'review' then
    perform move_job(s, d, 'effect_known', p_attempt, t, null);
  end if;
  return d.state;
end $$;
