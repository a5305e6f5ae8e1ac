"""Gates: a session stops between its lock and its decision, and the product's SQL is not touched.

Every deciding function takes its locks first and reads the clock then (rule R2), and the clock is the one function that
tests may replace.  This one waits at a door before it answers, if the session's transaction says that it should:

    hand.begin(1)           # the transaction's first look at the clock is behind a door
    caller.complete(...)    # takes the row, then waits at the door
    gates.open(pid)         # decides

A session has two doors and takes them in turn, so that it cannot run through the next one while the last is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.ledger.ledger_caller import Caller

_CLOCK: Final = """
create or replace function brokerjobs.clock() returns timestamptz language plpgsql volatile set lock_timeout = 0 as $$
declare
  v_look integer;
  v_door integer;
begin
  if current_setting('gates.stops', true) <> '' then
    v_look := current_setting('gates.looks')::integer + 1;
    perform set_config('gates.looks', v_look::text, true);
    if v_look::text = any (string_to_array(current_setting('gates.stops'), ' ')) then
      v_door := current_setting('gates.door')::integer;
      perform pg_advisory_lock(pg_backend_pid(), v_door);
      perform pg_advisory_unlock(pg_backend_pid(), v_door);
      perform set_config('gates.door', (1 - v_door)::text, true);
    end if;
  end if;
  return (select at from brokerjobs.test_clock);
end $$
"""


# The process that does something for a connection just now: a pooler may give each transaction another one.
_SERVES: Final = "pg_stat_activity where application_name = %s and state = 'active'"


def _name(caller: Caller) -> str | None:
    return caller.connection.info.parameter_status("application_name")


class Gates:
    """The doors of one ledger's sessions, held shut by a connection of an administrator."""

    def __init__(self, admin_url: str) -> None:
        self._keeper = psycopg.connect(admin_url, autocommit=True)
        self.keeper_pid = self._pid()
        self._shut: set[int] = set()

    def install(self, owner: psycopg.Connection) -> None:
        """Replaces the ledger's clock; the table that it reads is that of `LedgerClock`."""
        owner.execute(_CLOCK.encode())

    def shut(self, pid: int) -> None:
        """Shuts the doors of a session, before it comes to one."""
        if pid not in self._shut:
            self._keeper.execute("select pg_advisory_lock(%s, door) from generate_series(0, 1) door", [pid])
            self._shut.add(pid)

    def open(self, pid: int) -> int:
        """Lets a session that waits at a door through, and answers which door that was."""
        row = self._keeper.execute(
            "select objid::integer, pg_advisory_unlock(%(pid)s, objid::integer) from pg_locks"
            " where pid = %(pid)s and locktype = 'advisory' and not granted",
            {"pid": pid},
        ).fetchone()
        assert row is not None, "the session waits at no door"
        return int(row[0])

    def shut_again(self, pid: int, door: int) -> None:
        """Shuts a door once its session has gone through."""
        self._keeper.execute("select pg_advisory_lock(%s, %s)", [pid, door])

    def held_up_by(self, caller: Caller) -> set[int]:
        """Which sessions, or the keeper of the doors, a caller waits for just now.

        Not the server's own processes: autovacuum takes a table that was emptied, for a moment.
        """
        query = "select pg_blocking_pids(pid) from " + _SERVES
        row = self._keeper.execute(query, [_name(caller)]).fetchone()
        return set(row[0]) & (self._shut | {self.keeper_pid}) if row else set()

    def doing(self, pid: int) -> str:
        """What the server says that a session does."""
        query = "select state, wait_event_type, wait_event, query from pg_stat_activity where pid = %s"
        return str(self._keeper.execute(query, [pid]).fetchone())

    def let_go(self, caller: Caller) -> None:
        """Cancels what a caller waits for, so that its thread comes back."""
        self._keeper.execute("select pg_cancel_backend(pid) from " + _SERVES, [_name(caller)])

    def _pid(self) -> int:
        row = self._keeper.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        """Opens everything."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
