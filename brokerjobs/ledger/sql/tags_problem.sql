-- What is wrong with the tags of a submission; null if nothing is.
create or replace function tags_problem(p_tags text) returns text language sql immutable as $$
  select case
    when length(p_tags) > 8192 then 'tags are more than 8192 characters of JSON'
    when jsonb_typeof(p_tags::jsonb) <> 'object'
      or jsonb_path_exists(p_tags::jsonb, '$.* ? (@.type() != "string")') then 'tags are not an object of texts' end
$$;
