-- Carries out a decision: state row, event, and whatever the new state owes (a ring; a review and a message about it; a
-- dead-letter message and a place among the dead), and what it leaves (its resources, its place in a line).
create or replace function move_job(s job_state, d decision, p_kind text, p_attempt uuid, t timestamptz, p_detail jsonb)
returns void language plpgsql volatile as $$
declare
  v_review uuid;
begin
  update job_state x set
    state = d.state, waiting = d.waiting, wait_until = d.wait_until, wait_detail = d.wait_detail, lease_until = null,
    reported = s.reported, charged = s.charged, uncharged = s.uncharged,
    deadline_noted = x.deadline_noted and d.state = 'review',
    -- Neither the time before a replay nor that of a pause counts as without placement.
    unplaced_since = case when s.state = 'failed' or s.waiting = 'pause' then null
      when d.waiting in ('placement', 'resource') then coalesce(s.unplaced_since, t) else s.unplaced_since end,
    attempt_id = case when d.state = 'cancelled' then null else s.attempt_id end,
    failure_class = d.failure_class, failure_reason = case when d.failure_class is not null then d.reason end,
    finished_at = case when d.state in ('succeeded', 'failed', 'cancelled') then t end
  where x.job_id = s.job_id;
  perform note(s.job_id, p_attempt, p_kind, d.state, t, jsonb_strip_nulls(coalesce(p_detail, '{}') || jsonb_build_object(
    'waiting', d.waiting, 'until', rfc3339(d.wait_until), 'failure_class', d.failure_class, 'reason', d.reason)));
  if d.waiting = 'delivery' then
    insert into outbox (kind, job_id, made_at, hold_until) values ('doorbell', s.job_id, t, t);
  elsif d.state = 'failed' then
    insert into outbox (kind, job_id, made_at, hold_until) values ('dead', s.job_id, t, t);
    perform bury(s, d, t);
  elsif d.state = 'review' then
    insert into review (id, job_id, attempt_id, cause, opened_at, detail)
      values (make_uuid7(t), s.job_id, p_attempt, d.reason, t, review_detail(s, p_attempt, p_kind))
      on conflict (job_id) where closed_at is null do nothing returning id into v_review;
    if v_review is not null then
      perform note(s.job_id, p_attempt, 'review_opened', 'review', t, jsonb_build_object('review', v_review));
      insert into outbox (kind, job_id, made_at, hold_until) values ('review', s.job_id, t, t);
    end if;
  end if;
  if s.holds and s.state = 'running' or s.unplaced_since is not null and (d.waiting is distinct from 'delivery' or s.waiting = 'pause') then
    perform let_go(s.job_id, t);
  end if;
  if s.state = 'review' and d.state <> 'review' then
    update review r set closed_at = t, closed_as = d.state, closed_by = p_kind where r.job_id = s.job_id and r.closed_at is null;
  end if;
  if s.state = 'failed' then
    delete from dead x where x.job_id = s.job_id;
  end if;
end $$;
