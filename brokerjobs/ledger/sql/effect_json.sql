-- One try of an effect as JSON: its key, each attempt's intent, what became of it, and what contradicts that.
create or replace function effect_json(e effect) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'name', e.name, 'try', e.try, 'key', e.key, 'repeatable', e.repeatable, 'valid_until', rfc3339(e.valid_until),
    'unknown', is_unknown(e),
    'intents', (select coalesce(jsonb_agg(jsonb_build_object(
          'attempt', i.attempt_id, 'fencing_number', i.fencing_number::text, 'at', rfc3339(i.at), 'observed_at', rfc3339(i.observed_at),
          'time_limit_seconds', extract(epoch from i.time_limit)) order by i.at), '[]')
        from effect_intent i where (i.job_id, i.name, i.try) = (e.job_id, e.name, e.try)),
    'outcome', case when e.outcome is not null then jsonb_build_object(
      'as', e.outcome, 'at', rfc3339(e.known_at), 'observed_at', rfc3339(e.observed_known_at), 'by', e.known_by,
      'attempt', e.attempt_id, 'late', coalesce(e.late, false), 'result', e.result, 'reference', e.reference) end,
    'contradicted_at', rfc3339(e.contradicted_at), 'settled_at', rfc3339(e.settled_at))
$$;
