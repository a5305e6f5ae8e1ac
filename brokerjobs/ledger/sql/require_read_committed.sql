-- Lock first, then look: true only where every statement after the lock sees fresh rows (rule R9).
create or replace function require_read_committed() returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'brokerjobs decides under READ COMMITTED only, this transaction is %',
        upper(current_setting('transaction_isolation'))
      using errcode = 'BJ001', hint = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  end if;
end $$;
