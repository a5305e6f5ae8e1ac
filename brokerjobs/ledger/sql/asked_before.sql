-- What a request of a person was answered about a job whose row is locked; null if it is new. The same id with another
-- command or other arguments is answered `request_reused`: somebody took an id twice.
create or replace function asked_before(p_request uuid, p_job uuid, p_command text, p_arguments jsonb) returns jsonb
language sql stable as $$
  select case when q.command = p_command and q.arguments = p_arguments then q.answer || '{"repeated": true}'
      else jsonb_build_object('verdict', 'request_reused', 'command', q.command, 'at', rfc3339(q.at), 'by', q.asked_by) end
    from request q where q.id = p_request and q.job_id = p_job
$$;
