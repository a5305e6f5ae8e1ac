-- Needs that have no problem in their one order, each once, with the amounts that their quantities say; null if there are none.
create or replace function needs_in_order(p_needs jsonb) returns jsonb language sql immutable as $$
  select jsonb_agg(n.need order by n.need ->> 'kind' collate "C", n.need ->> 'name' collate "C", n.need::text collate "C")
    from (select distinct case e ->> 'kind' when 'at_least' then e || quantity_of(e ->> 'value') else e end
      from jsonb_array_elements(p_needs) e) n (need)
$$;
