-- Of needs those that a worker must have; the others are resources of the ledger.
create or replace function worker_needs(p_needs jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_agg(n.need order by n.place), '[]')
    from jsonb_array_elements(p_needs) with ordinality n (need, place) where n.need ->> 'kind' in ('equal', 'one_of', 'at_least', 'has')
$$;
