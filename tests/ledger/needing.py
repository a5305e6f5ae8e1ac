"""Jobs that need resources, and who holds and awaits these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from brokerjobs import needs
from brokerjobs.ledger import services
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from brokerjobs.rules.needs import Need
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

READS = ("doorbell/1", "probe/1", "paused/1", "resource/1")


def needing(ledger: Ledger, *wanted: Need | str, kind: str = "work", deadline: float | None = None) -> UUID:
    """Submits a job that needs these; a text is the name of an exclusive resource."""
    added = [needs.exclusive(one) if isinstance(one, str) else one for one in wanted]
    (answer,) = ledger.submit_all([replace(new_job(deadline=deadline), needs=added)], kind)
    assert answer.verdict == "created", answer
    if answer.ticket is not None:
        ledger.coordinator.outbox_done(answer.ticket)
    return answer.id


def beat(ledger: Ledger, worker: Caller, *, routes: Sequence[str] = (), **detail: Any) -> None:
    """A heartbeat of a worker that reads every verdict."""
    said = {"reads": READS, **detail}
    worker.fetch(
        services.heartbeat(
            services.Heartbeat(
                worker.process, "worker", ledger.place.namespace, ["work"], routes, "online", ledger.clock.now, said
            )
        )
    )


def holders(ledger: Ledger, name: str) -> list[UUID]:
    """The jobs whose attempts hold places of a resource, in the order of the places."""
    rows = ledger.owner.execute(
        "select r.job_id from brokerjobs.resource r join brokerjobs.attempt a on a.id = r.attempt_id"
        " where r.namespace = %s and r.name = %s and a.closed_at is null order by r.place",
        [ledger.place.namespace, name],
    )
    return [job for (job,) in rows]


def in_line(ledger: Ledger, name: str) -> list[UUID]:
    """The jobs that wait for a resource, in their order."""
    rows = ledger.owner.execute(
        "select job_id from brokerjobs.waiter where namespace = %s and name = %s order by since, job_id",
        [ledger.place.namespace, name],
    )
    return [job for (job,) in rows]


def rings(ledger: Ledger, job: UUID) -> int:
    """Publishes the doorbells of a job that the outbox holds; how many there were."""
    tickets = [row.ticket for row in ledger.rows.outbox(job)]
    ledger.coordinator.outbox_done(*tickets)
    return len(tickets)
