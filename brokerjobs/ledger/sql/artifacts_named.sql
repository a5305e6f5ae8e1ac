-- The artifacts that a result names, wherever in it: objects with the schema "brokerjobs.artifact/1". Their ids are as they
-- were written, in lower case; null, or no id at all, is possible.
create or replace function artifacts_named(p_result jsonb) returns table (id text, size text, sha256 text)
language sql immutable as $$
  select distinct lower(n ->> 'id'), n ->> 'size', n ->> 'sha256'
    from jsonb_path_query(p_result, 'strict $.** ? (@.schema == "brokerjobs.artifact/1")') n
$$;
