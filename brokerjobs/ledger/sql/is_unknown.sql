-- Must a person, or a fact, say what became of this effect before it may be tried again? It may not be repeated and has no
-- outcome, or one that was contradicted.
create or replace function is_unknown(e effect) returns boolean language sql immutable as $$
  select e.outcome is null and not e.repeatable or e.contradicted_at is not null and e.settled_at is null
$$;
