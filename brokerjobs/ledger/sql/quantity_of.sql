-- The quantity that a text says, {amount, unit}, as rules/quantities.py reads it; null if it says none.
create or replace function quantity_of(p_text text) returns jsonb language sql immutable as $$
  select jsonb_build_object(
      'amount', case when m.unit = '' then trim_scale(m.number) else trunc(m.number * case left(m.unit, 1)
          when 'B' then 1
          when 'k' then 1000
          when 'K' then 1024
          when 'M' then case when m.unit = 'MiB' then 1048576 else 1000000 end
          when 'G' then case when m.unit = 'GiB' then 1073741824 else 1000000000 end
          else case when m.unit = 'TiB' then 1099511627776 else 1000000000000 end end) end,
      'unit', case when m.unit = '' then '' else 'B' end)
    from (select x[1]::numeric, coalesce(x[2], '') from regexp_match(p_text, '^([0-9]{1,12}(?:\.[0-9]{1,3})?)(?: ?(B|[kMGT]B|[KMGT]iB))?$') x) m (number, unit)
    where m.number is not null
$$;
