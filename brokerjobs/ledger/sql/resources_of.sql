-- The resources that needs ask for, their names filled in from a payload: [{name, limit}] in the order of their names, each
-- once: an exclusive one has limit 1, and of two limits the smaller wins. Null if there are none; {problem} if a name cannot
-- be filled in. Text that a payload brings is never looked at for fields.
create or replace function resources_of(p_needs jsonb, p_payload jsonb) returns jsonb language plpgsql immutable as $$
declare
  v_need jsonb;
  v_name text;
  v_rest text;
  v_field text[];
  v_type text;
  v_places jsonb := '[]';
begin
  for v_need in select e from jsonb_array_elements(p_needs) e where e ->> 'kind' in ('exclusive', 'limit') loop
    v_name := ''; v_rest := v_need ->> 'name';
    while strpos(v_rest, '{') > 0 loop
      v_field := string_to_array(split_part(substr(v_rest, strpos(v_rest, '{') + 1), '}', 1), '.');
      v_type := coalesce(jsonb_typeof(p_payload #> v_field), 'missing');
      if v_type not in ('string', 'number', 'boolean') then
        return jsonb_build_object('problem', format('its need %s asks for the payload''s field %s, which is %s',
          v_need ->> 'name', array_to_string(v_field, '.'), case v_type when 'missing' then 'missing' when 'null' then 'null' else format('of type %s, not a text, number or boolean', v_type) end));
      end if;
      v_name := v_name || split_part(v_rest, '{', 1) || left(p_payload #>> v_field, 300);
      v_rest := substr(v_rest, strpos(v_rest, '}') + 1);
    end loop;
    v_name := v_name || v_rest;
    if length(v_name) > 255 or v_name ~ '[[:cntrl:]]' then
      return jsonb_build_object('problem', format('its need %s, filled in from the payload, %s', v_need ->> 'name',
        case when length(v_name) > 255 then 'is over 255 characters' else 'has characters that cannot be printed' end));
    end if;
    v_places := v_places || jsonb_build_object('name', v_name, 'limit', case v_need ->> 'kind' when 'limit' then (v_need ->> 'limit')::integer else 1 end);
  end loop;
  return (select jsonb_agg(jsonb_build_object('name', x.name, 'limit', x.places) order by x.name collate "C")
    from (select e ->> 'name', min((e ->> 'limit')::integer) from jsonb_array_elements(v_places) e group by 1) x (name, places));
end $$;
