-- Why a result that plain SQL gives is none that the job's type and its readers take; null if nothing is. Its size is that
-- of its shortest text: jsonb writes spaces, and zeros for exponents, which nobody sent.
create or replace function result_problem(p_job uuid, p_result jsonb) returns text language plpgsql stable as $$
declare
  v_limit integer;
  v_size integer := octet_length(p_result::text);
  v_unquoted text;
begin
  select y.result_limit into v_limit from job j join job_type y on y.namespace = j.namespace and y.name = j.type where j.id = p_job;
  if v_size > v_limit then
    v_unquoted := regexp_replace(p_result::text, '"(\\.|[^"\\])*"', '', 'g');
    v_size := v_size - octet_length(v_unquoted) + octet_length(regexp_replace(v_unquoted, ' |0{5,}', '', 'g'));
    if v_size > v_limit then
      return format('it is %s bytes of JSON, %s over the limit of %s; keep large data in an artifact: stage it with ctx.artifacts.put, and put what that returns into the result',
        v_size, v_size - v_limit, v_limit);
    end if;
  end if;
  return json_problem(p_result);
end $$;
