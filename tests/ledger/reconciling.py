"""The steps around a look for lost doorbells: workers that beat, probes that return, jobs whose doorbell went out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from brokerjobs.ledger import calls, services, ticks
from brokerjobs.ledger.ticks import Candidacy, Looking, Walk

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger

LOST = timedelta(minutes=10)
HAND_BACK = timedelta(minutes=5)
NEW_CODE = {"reads": ["doorbell/1", "probe/1"], "heartbeat_seconds": 10}


@dataclass(frozen=True, slots=True)
class Look:
    """What one walk through the waiting jobs did."""

    probes: list[ticks.Probing]
    rung: int
    statements: int


@dataclass
class StandInWorker:
    """A worker as the ledger sees it."""

    ledger: Ledger
    name: str
    routes: list[str]
    identity: calls.ProcessIdentity = field(init=False)

    def __post_init__(self) -> None:
        self.identity = calls.ProcessIdentity(uuid4(), self.name, "host", 1)

    def beats(self, *, oldest: float | None = None, state: str = "online", **detail: Any) -> None:
        """Sends a heartbeat: it consumes its routes, and its oldest unclaimed delivery has waited so many seconds."""
        said = {**NEW_CODE, "consuming": self.routes, "missing": [], "oldest_unclaimed_seconds": oldest} | detail
        self.send({key: value for key, value in said.items() if value != "unsaid"}, state)

    def send(self, detail: dict[str, Any], state: str = "online") -> None:
        """Sends a heartbeat with just this detail."""
        namespace, now = self.ledger.place.namespace, self.ledger.clock.now
        beat = services.Heartbeat(self.identity, "worker", namespace, ["work"], self.routes, state, now, detail)
        self.ledger.worker.fetch(services.heartbeat(beat))

    def returns(self, ticket: UUID, route: str | None = None) -> bool:
        """Reports a probe."""
        (answer,) = self.ledger.worker.fetch(calls.probe_returned(self.name, route or self.routes[0], ticket))
        return answer.known


@dataclass
class Reconciling:
    """A ledger whose coordinator looks for lost doorbells."""

    ledger: Ledger
    identity: calls.ProcessIdentity = field(default_factory=lambda: calls.ProcessIdentity(uuid4(), "c", "host", 1))

    def worker(self, name: str = "worker-a", *queues: str) -> StandInWorker:
        """A worker of these queues; it is not known before it beats."""
        return StandInWorker(self.ledger, name, [self.ledger.place.route(queue) for queue in queues or ("default",)])

    def looks(self, *, rows: int = 1000, rings: int = 1000, send: bool = True) -> Look:
        """Walks once through all waiting jobs; the probes that it asks for are taken to be in their queues."""
        walk: Walk | None = None
        probes: list[ticks.Probing] = []
        rung = statements = 0
        while walk is not None or not statements:
            *asked, last = self.step(walk, rows=rows, rings=rings)
            probes += [probe for row in asked if (probe := row.probe()) is not None]
            rung += last.rung or 0
            walk = last.walk()
            statements += 1
            assert statements < 100
        if send and probes:
            self.sent(*probes)
        return Look(probes, rung, statements)

    def step(self, walk: Walk | None, *, rows: int = 1000, rings: int = 1000) -> list[ticks.Reconciled]:
        """One statement of a walk."""
        bounds = Looking(
            rows=rows, rings=rings, lost_seconds=LOST.total_seconds(), hand_back_seconds=HAND_BACK.total_seconds()
        )
        answers = self.ledger.coordinator.fetch(
            ticks.reconcile(Candidacy("reconcile", self.identity, 100.0), walk, bounds)
        )
        assert [row.kind for row in answers] == ["probe"] * (len(answers) - 1) + ["walk"]
        return answers

    def sent(self, *probes: ticks.Probing) -> None:
        """The broker has confirmed these."""
        self.ledger.coordinator.fetch(ticks.probe_sent([probe.ticket for probe in probes], []))

    def not_sent(self, *probes: ticks.Probing) -> None:
        """Nothing is known of these, or the broker has them in no queue."""
        self.ledger.coordinator.fetch(ticks.probe_sent([], [probe.ticket for probe in probes]))

    def waiting(self, count: int = 1, kind: str = "work") -> list[UUID]:
        """Submits jobs whose doorbells go out now, and lets a second pass."""
        jobs = [self.ledger.submit(kind, rung=True) for _ in range(count)]
        self.ledger.clock.advance(1)
        return jobs

    def clear(self) -> None:
        """Lets nothing wait any more, and forgets all probes."""
        waiting = "select job_id from brokerjobs.job_state where state = 'queued'"
        for (job,) in self.ledger.owner.execute(waiting).fetchall():
            self.ledger.producer.cancel(job)
        self.ledger.owner.execute("delete from brokerjobs.probe")

    def rings(self, job: UUID) -> int:
        """How many rings of a job the outbox has."""
        return len(self.ledger.rows.outbox(job))
