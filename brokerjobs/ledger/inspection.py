"""What `brokerjobs doctor` reads of PostgreSQL: of the server with plain SQL, of the ledger by its function `doctor`.

The server is looked at with the login's own rights, which may be more than the owner's: a monitoring login sees the
transactions of others.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from brokerjobs.ledger import schema
from brokerjobs.ledger.database import Query


@dataclass(frozen=True, slots=True)
class Server:
    """PostgreSQL itself: its version, its connections, and the oldest transaction in this database that is seen."""

    version: str
    number: int
    """As `server_version_num`: 150020 is 15.20."""
    most_connections: int
    """Those that logins without special rights may have together."""
    connections: int
    oldest_seconds: float | None
    oldest_pid: int | None
    oldest_login: str | None
    oldest_state: str | None


def server() -> Query[Server]:
    """Looks at the server."""
    return Query(
        "select current_setting('server_version'), current_setting('server_version_num')::integer,"
        " current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer"
        " - coalesce(current_setting('reserved_connections', true), '0')::integer,"
        " (select count(*)::integer from pg_stat_activity where datname is not null),"
        " date_part('epoch', clock_timestamp() - o.xact_start), o.pid, o.usename::text, o.state"
        " from (select 1) here left join lateral (select x.* from pg_stat_activity x"
        " where x.datname = current_database() and x.pid <> pg_backend_pid() and x.xact_start is not null"
        " order by x.xact_start limit 1) o on true",
        [],
        Server,
    )


@dataclass(frozen=True, slots=True)
class Function:
    """A ledger function as it is, or as this code has it."""

    body: str
    """SHA-256 of the text between the quotes."""
    definer: bool
    settings: frozenset[str]


@dataclass(frozen=True, slots=True)
class Process:
    """A worker or coordinator that lives."""

    name: str
    role: str
    login: str
    routes: tuple[str, ...]
    state: str
    offset_seconds: float
    """Its clock against the ledger's at its last heartbeat."""
    leaked: int
    """Places of it that handlers hold which cannot be stopped."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Processes of the last day that fell silent without a word."""

    count: int = 0
    names: tuple[str, ...] = ()
    """Of the last three."""
    last_seconds: float = 0.0
    """Since the last heartbeat of the one that was last there."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Who leads a service, and for how long yet; negative: nobody does."""

    holder: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class TypeLimit:
    """The time limit of a registered job type."""

    name: str
    route: str
    time_limit_seconds: float


@dataclass(frozen=True, slots=True)
class ProbesOut:
    """Probes of one route that have not come back."""

    route: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """A store that artifacts or orphans are recorded in; counts of 10 000 say "at least"."""

    store: str
    artifacts: int
    """Whose objects should be there."""
    unswept: int
    """Those that somebody should have looked at over an hour ago, the first one `unswept_seconds` ago."""
    unswept_seconds: float | None
    unremoved: int
    """Those that were to be removed over an hour ago, and are not gone."""
    unremoved_seconds: float | None
    orphans: int
    """Objects of which the ledger knows nothing."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The oldest open transaction that the ledger's owner sees."""

    seconds: float
    pid: int
    login: str
    state: str


@dataclass(frozen=True, slots=True)
class LedgerLook:
    """What the ledger's function `doctor` saw."""

    clock: datetime
    schema_version: int
    oldest_code: int
    migrations: dict[str, str]
    functions: dict[str, Function]
    may: dict[str, frozenset[str]]
    """Roles and logins, and the ledger functions that each may execute."""
    login: str
    partitions: tuple[str, ...]
    services: dict[str, Lead]
    processes: tuple[Process, ...]
    gone: Gone
    types: tuple[TypeLimit, ...]
    routes: tuple[str, ...]
    namespaces: frozenset[str]
    quarantined: dict[str, int]
    """Messages of the last day, by reason."""
    outbox_messages: int
    outbox_oldest_seconds: float | None
    waiting: dict[str, int]
    """Jobs that wait for a delivery, by route."""
    probes: tuple[ProbesOut, ...]
    """Routes with probes that have not come back, the oldest first."""
    reviews: int
    """Jobs in review."""
    stores: tuple[StoreFigures, ...]
    hidden_sessions: int
    oldest: Transaction | None
    prepared_seconds: float | None


@dataclass(frozen=True, slots=True)
class Looked:
    """The row of `doctor`."""

    seen: dict[str, Any]

    def look(self) -> LedgerLook:
        """What it says."""
        seen = self.seen
        oldest = seen["sessions"]["oldest"]
        return LedgerLook(
            clock=datetime.fromisoformat(seen["clock"]),
            schema_version=seen["schema_version"],
            oldest_code=seen["oldest_code"],
            migrations=seen["migrations"],
            functions={
                name: Function(one["body"], one["definer"], frozenset(one["settings"]))
                for name, one in seen["functions"].items()
            },
            may={name: frozenset(functions) for name, functions in seen["may"].items()},
            login=seen["login"],
            partitions=tuple(seen["partitions"]),
            services={one["name"]: Lead(one["holder"], one["seconds_left"]) for one in seen["services"]},
            processes=tuple(
                Process(
                    name=one["name"],
                    role=one["role"],
                    login=one["login"],
                    routes=tuple(one["routes"]),
                    state=one["state"],
                    offset_seconds=one["offset_seconds"],
                    leaked=one.get("leaked", 0),
                )
                for one in seen["processes"]
            ),
            gone=_gone(seen.get("gone")),
            types=tuple(
                TypeLimit(f"{one['namespace']}/{one['name']}", one["route"], one["time_limit_seconds"])
                for one in seen["types"]
            ),
            routes=tuple(one["name"] for one in seen["routes"]),
            namespaces=frozenset(one["namespace"] for one in seen["routes"]),
            quarantined=seen["quarantined"],
            outbox_messages=seen["outbox"]["messages"],
            outbox_oldest_seconds=seen["outbox"]["oldest_seconds"],
            waiting=seen["waiting"],
            probes=_probes(seen.get("probes", {})),
            reviews=seen.get("reviews", 0),  # not yet said by a ledger that `brokerjobs setup` has still to renew
            stores=tuple(StoreFigures(**one) for one in seen.get("stores", ())),  # as above
            hidden_sessions=seen["sessions"]["hidden"],
            oldest=None if oldest is None else Transaction(**oldest),
            prepared_seconds=seen["prepared_seconds"],
        )


def _gone(seen: dict[str, Any] | None) -> Gone:
    if not seen or not seen["processes"]:  # as above
        return Gone()
    return Gone(seen["processes"], tuple(seen["names"]), seen["last_seconds"])


def _probes(seen: dict[str, dict[str, Any]]) -> tuple[ProbesOut, ...]:
    out = [ProbesOut(route, one["out"], one["oldest_seconds"]) for route, one in seen.items()]
    return tuple(sorted(out, key=lambda one: -one.oldest_seconds))


def look() -> Query[Looked]:
    """Looks at the ledger."""
    return Query("select brokerjobs.doctor()", [], Looked)


# The parts of a function's text that PostgreSQL keeps: SECURITY DEFINER, SET clauses, body.
_TEXT = re.compile(r"(?:--[^\n]*\n)*(?P<head>.*?)\bas (?P<quote>\$\$|')(?P<body>.*)(?P=quote)", re.DOTALL)
_SETTING = re.compile(r"\bset (?P<name>\w+) = (?P<value>'[^']*'|\w+(?:, \w+)*)")


def functions_of_this_code() -> dict[str, Function]:
    """The ledger functions that this code carries, by name."""
    return {name: _function(text) for name, text in schema.functions().items()}


def _function(text: str) -> Function:
    found = _TEXT.match(text)
    if found is None:
        message = f"a function whose body is in no quotes that are known here: {text[:80]!r}"
        raise AssertionError(message)
    settings = {f"{one['name']}={one['value'].strip(chr(39))}" for one in _SETTING.finditer(found["head"])}
    body = hashlib.sha256(found["body"].encode()).hexdigest()
    return Function(body, "security definer" in found["head"], frozenset(settings))
