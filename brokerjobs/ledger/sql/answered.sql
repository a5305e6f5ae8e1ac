-- Keeps what a request of a person was answered, and gives it back.
create or replace function answered(
  p_request uuid, p_job uuid, p_command text, p_arguments jsonb, p_answer jsonb, p_by text, t timestamptz)
returns jsonb language sql volatile as $$
  insert into request (id, job_id, command, arguments, answer, at, asked_by, login)
    values (p_request, p_job, p_command, p_arguments, p_answer, t, p_by, session_user)
    returning answer
$$;
