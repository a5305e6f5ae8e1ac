-- Which rows of a batch name a job that an earlier row names: they are answered `locked` and go into the next batch.
create or replace function repeats(p_jobs uuid[]) returns boolean[] language sql immutable as $$
  select array_agg(x.n > 1 order by x.i)
    from (select u.i, row_number() over (partition by u.j order by u.i) n from unnest(p_jobs) with ordinality u (j, i)) x
$$;
