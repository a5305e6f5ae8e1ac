-- Those of needs that a worker with these capabilities does not meet, in their order; [] if it meets all. Resources are no
-- matter of workers. The twin of `unmet` in rules/placement.py: capabilities are what its as_data() says, with the
-- quantities that they are under "".
create or replace function unmet_needs(p_needs jsonb, p_capabilities jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_agg(n.need order by n.place), '[]')
    from jsonb_array_elements(p_needs) with ordinality n (need, place),
      lateral (select p_capabilities -> (n.need ->> 'name'), p_capabilities #> array['', n.need ->> 'name']) c (texts, quantity)
    where n.need ->> 'kind' not in ('exclusive', 'limit') and not coalesce(jsonb_typeof(c.texts) = 'array' and case n.need ->> 'kind'
      when 'equal' then c.texts = jsonb_build_array(n.need -> 'value')
      when 'one_of' then c.texts ?| array(select jsonb_array_elements_text(n.need -> 'values'))
      when 'has' then c.texts ? (n.need ->> 'value')
      when 'at_least' then c.quantity -> 'unit' = n.need -> 'unit' and (c.quantity ->> 'amount')::numeric >= (n.need ->> 'amount')::numeric end, false)
$$;
