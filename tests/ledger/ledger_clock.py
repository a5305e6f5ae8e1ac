"""The ledger's clock, replaced by a row that tests set: no test of the ledger sleeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psycopg

# Past the server's start by more than any lease of these tests, so that leases may be given up (lease_is_over).
_AHEAD: Final = timedelta(days=2)
_REAPER: Final = "f0000000-0000-7000-8000-000000000000"


class LedgerClock:
    """The time of one test database; while it moves the reaper is taken to have ticked all along."""

    def __init__(self, owner: psycopg.Connection) -> None:
        self._owner = owner
        self.now = datetime.now(UTC) + _AHEAD
        owner.execute("create table brokerjobs.test_clock (at timestamptz not null)")
        owner.execute("insert into brokerjobs.test_clock values (%s)", [self.now])
        owner.execute(
            "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as"
            " 'select at from brokerjobs.test_clock'"
        )
        owner.execute(
            "insert into brokerjobs.service values ('reaper', %s, 'reaper', %s, %s, %s)",
            [_REAPER, self.now, self.now, self.now - _AHEAD],
        )

    def set(self, now: datetime, *, ticking: bool = True) -> datetime:
        """Makes it `now`; with `ticking` the reaper ticks at that moment and has left no gap."""
        self.now = now
        self._owner.execute(
            "with tick as (update brokerjobs.service set ticked_at = %(now)s where name = 'reaper' and %(ticking)s)"
            " update brokerjobs.test_clock set at = %(now)s",
            {"now": now, "ticking": ticking},
        )
        return now

    def advance(self, seconds: float, *, ticking: bool = True) -> datetime:
        """Lets time pass."""
        return self.set(self.now + timedelta(seconds=seconds), ticking=ticking)

    def after(self, seconds: float) -> datetime:
        """The time in so many seconds."""
        return self.now + timedelta(seconds=seconds)
