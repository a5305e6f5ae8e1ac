-- The ledger's clock: the one time that decides anything (rule R2). Tests replace this function.
create or replace function clock() returns timestamptz language sql volatile as 'select clock_timestamp()';
