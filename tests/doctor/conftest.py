"""A patient: a ledger and a broker that are well, and the doctor who looks at them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import args_row
from uuid_utils.compat import uuid7

from brokerjobs.broker.names import route_name
from brokerjobs.broker.topology import Topology, declare
from brokerjobs.cli.checkup.examination import examine
from brokerjobs.cli.checkup.findings import Finding, Level, Limits
from brokerjobs.coordinator.coordinator import service_names
from brokerjobs.ledger import calls, inquiries, services
from brokerjobs.rules.terms import Terms
from brokerjobs.settings_loading import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from uuid import UUID

    from brokerjobs.ledger.database import Query
    from tests.databases import Database

ALL_SERVICES = service_names(removing=True)


@dataclass
class Diagnosis:
    """What the doctor found."""

    findings: list[Finding]

    def bad(self) -> list[tuple[str, str]]:
        """Checks that fail or warn, with their level."""
        return [(one.check, one.level.name.lower()) for one in self.findings if one.level is not Level.OK]

    def only(self, check: str, level: str) -> Finding:
        """The one finding that is not well, which must be of this check and level."""
        assert self.bad() == [(check, level)], self.findings
        return self.findings[0]

    def text(self) -> str:
        """Everything that was said."""
        return "\n".join(f"{one.check}: {one.message}; {one.next}" for one in self.findings)


@dataclass
class Patient:
    """A ledger with the job type `work`, its route at the broker, a worker and a coordinator that are there."""

    database: Database
    broker_url: str
    namespace: str
    connections: dict[str, psycopg.Connection] = field(default_factory=dict[str, psycopg.Connection])

    def fetch(self, query: Query[Any], kind: str) -> list[Any]:
        """Runs a query with the login of a role."""
        with self._connected(kind).cursor(row_factory=args_row(query.row)) as cursor:
            cursor.execute(query.sql, query.params)
            return cursor.fetchall()

    def sql(self, statement: str, *params: Any, kind: str = "owner") -> list[Any]:
        """Runs plain SQL, by default as the ledger's owner."""
        cursor = self._connected(kind).execute(statement.encode(), params)
        return cursor.fetchall() if cursor.description else []

    def register(self, name: str, **terms: Any) -> None:
        """Registers a repeatable job type, and says that its route is declared."""
        terms.setdefault("repeatable", True)
        wanted = Terms(**terms)
        data = {"name": name, **wanted.as_data(), "fingerprint": "f" * 64}
        self.fetch(services.register_types(self.namespace, [data], change=True), "owner")
        self.fetch(services.routes_declared([self.route(wanted.queue)]), "coordinator")

    def route(self, queue: str = "default") -> str:
        """The route of a queue."""
        return route_name(self.namespace, queue)

    def wanted(self) -> Topology:
        """What shall be at the broker."""
        return Topology(routes=frozenset({self.route()}))

    def lead(self, names: frozenset[str] = ALL_SERVICES, holder: str = "coordinator-a", seconds: float = 60) -> None:
        """Has a coordinator lead services."""
        process = calls.ProcessIdentity(uuid4(), holder, "host", 1)
        for name in names:
            self.fetch(services.lead(name, process, seconds), "coordinator")

    def beat(self, name: str, role: str = "worker", *, state: str = "online", late: timedelta = timedelta(0)) -> None:
        """Has a process say that it is there; `late` by its own clock."""
        beat = services.Heartbeat(
            process=calls.ProcessIdentity(uuid4(), name, "host", 1),
            role=role,
            namespace=self.namespace,
            types=["work"],
            routes=[self.route()] if role == "worker" else [],
            state=state,
            observed_at=datetime.now(UTC) - late,
            detail={},
        )
        self.fetch(services.heartbeat(beat), role)

    def submit(self, kind: str = "work", *, rung: bool = False) -> UUID:
        """Submits one job."""
        new = inquiries.NewJob(uuid7(), "{}", None, {}, None, None, None)
        batch = inquiries.SubmitBatch(
            self.namespace, kind, "tests", "f" * 64, datetime.now(UTC), announced=False, jobs=[new]
        )
        (answer,) = self.fetch(inquiries.submit(batch), "producer")
        if rung:
            self.fetch(services.outbox_done([answer.ticket]), "coordinator")
        return new.id

    def examine(self, limits: Limits | None = None, **settings: object) -> Diagnosis:
        """Has the doctor look, with the login of a reader; settings by their keys, dots as two underscores."""
        flags: dict[str, object] = {"database_url": self.database.reader_url, "broker_url": self.broker_url}
        flags |= {key.replace("__", "."): value for key, value in settings.items()}
        return Diagnosis(examine(load_settings(flags), limits))

    def _connected(self, kind: str) -> psycopg.Connection:
        if kind not in self.connections:
            self.connections[kind] = psycopg.connect(getattr(self.database, f"{kind}_url"), autocommit=True)
        return self.connections[kind]


@pytest.fixture
def patient(
    database: Database, broker_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Patient]:
    """One who is well."""
    monkeypatch.chdir(tmp_path)  # where no settings are
    made = Patient(database, broker_url, namespace)
    made.register("work")
    asyncio.run(declare(broker_url, made.wanted()))
    made.lead()
    made.beat("coordinator-a", "coordinator")
    made.beat("worker-a")
    yield made
    for connection in made.connections.values():
        connection.close()
