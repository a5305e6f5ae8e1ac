"""PostgreSQL: connections, clocks, and transactions that are open for long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.checkup.findings import fail, ok, several, warn
from brokerjobs.cli.failures import ExitCode
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.checkup.findings import Finding, Limits
    from brokerjobs.cli.checkup.looks import Clock
    from brokerjobs.ledger.inspection import LedgerLook, Server

_OF_A_WORKER: Final = 3
_OF_A_COORDINATOR: Final = 2
_WHILE_LEADING: Final = 1


def connections(server: Server, ledger: LedgerLook | None, limits: Limits) -> Iterator[Finding]:
    """What the processes that are there need at most, and what is in use, against what the server gives."""
    most, used = server.most_connections, server.connections
    room = "raise max_connections, or give PgBouncer's port in database_url"
    if used > most * limits.connections:
        message = f"{used} of the {most} connections that the server gives to ordinary logins are in use"
        yield fail("connections", message, room, ExitCode.UNREACHABLE)
    if ledger is None:
        return
    workers = [one for one in ledger.processes if one.role == "worker"]
    coordinators = len(ledger.processes) - len(workers)
    leading = len({one.name for one in workers} & {lead.holder for lead in ledger.services.values()})
    needed = _OF_A_WORKER * len(workers) + _OF_A_COORDINATOR * coordinators + _WHILE_LEADING * leading
    beside = counted(coordinators, "coordinator", "coordinators")
    said = f"{counted(len(workers), 'worker', 'workers')} and {beside} hold up to {needed} connections"
    if needed > most:
        message = f"{said}, beside those of handlers and producers; the server gives {most}"
        yield warn("connections", message, f"{room}, if they do not go through one already")
    else:
        yield ok("connections", f"{said}; {used} of {most} are in use")


def clocks(ledger: LedgerLook, clock: Clock, limits: Limits) -> Iterator[Finding]:
    """The ledger's clock against this machine's, and against those of the processes that are there."""
    ahead, behind = ledger.clock - clock.after, clock.before - ledger.clock
    off = max(ahead, behind, timedelta(0))
    next_ = "synchronise both clocks (chrony, ntpd): nothing is decided by this one, but times in records disagree"
    if off > limits.clock_offset:
        direction = "ahead of" if ahead > behind else "behind"
        yield warn(
            "clocks", f"the database's clock is {show_duration(_rounded(off))} {direction} this machine's", next_
        )
    else:
        yield ok("clocks", "the database's clock and this machine's agree")
    strange = [one for one in ledger.processes if abs(one.offset_seconds) > limits.clock_offset.total_seconds()]
    if strange:
        named = several([f"{one.name} ({one.offset_seconds:+.1f} s)" for one in strange])
        yield warn("clocks", f"the clocks of these processes differ from the database's: {named}", next_)


def transactions(server: Server, ledger: LedgerLook | None, limits: Limits) -> Iterator[Finding]:
    """The oldest transaction that this login, or the ledger's owner, sees."""
    seen = [] if ledger is None or ledger.oldest is None else [ledger.oldest]
    oldest = max([one.seconds for one in seen] + [server.oldest_seconds or 0.0])
    hidden = 0 if ledger is None else ledger.hidden_sessions
    shows = counted(hidden, "session of another login shows", "sessions of other logins show")
    unseen = f" ({shows} no times: `grant pg_read_all_stats` to the owner)" if hidden else ""
    if oldest > limits.transaction.total_seconds():
        if seen and seen[0].seconds >= (server.oldest_seconds or 0.0):
            pid, login, state = seen[0].pid, seen[0].login, seen[0].state
        else:
            pid, login, state = server.oldest_pid or 0, server.oldest_login or "", server.oldest_state or ""
        age = show_duration(_rounded(timedelta(seconds=oldest)))
        message = f"a transaction of {login} is open for {age} ({state}): dead rows stay, every look gets slower"
        yield warn("transactions", message + unseen, f"end it in its program, or select pg_terminate_backend({pid})")
    else:
        yield ok("transactions", f"none is open for long{unseen}")
    prepared = None if ledger is None else ledger.prepared_seconds
    if prepared is not None and prepared > limits.transaction.total_seconds():
        age = show_duration(_rounded(timedelta(seconds=prepared)))
        message = f"a prepared transaction is left for {age}: dead rows stay, every look gets slower"
        yield warn("transactions", message, "select gid from pg_prepared_xacts; then commit or rollback prepared 'GID'")


def _rounded(span: timedelta) -> timedelta:
    return timedelta(seconds=round(span.total_seconds(), 1 if span < timedelta(minutes=1) else 0))
