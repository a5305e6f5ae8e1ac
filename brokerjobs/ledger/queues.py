"""One typed query for each ledger function of queues and workers, for people; a query does nothing by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs.ledger.database import Query
from brokerjobs.ledger.pauses import Answer, Unparked

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from brokerjobs.ledger.decisions import Request


def pause_queue(namespace: str, queue: str, request: Request, until: datetime | timedelta | None) -> Query[Answer]:
    """Pauses a queue, until a time, for a time by the database's clock, or until it is resumed.

    Its jobs are accepted, and none is begun.
    """
    at, after = (None, until) if isinstance(until, timedelta) else (until, None)
    return Query(
        "select brokerjobs.pause_queue(%s, %s, %s, %s, %s, %s, %s)",
        [request.id, namespace, queue, *request.params(), at, after],
        Answer,
    )


def resume_queue(namespace: str, queue: str, request: Request) -> Query[Answer]:
    """Ends the pause of a queue; `unpark_queue` rings the jobs that were parked."""
    return Query(
        "select brokerjobs.resume_queue(%s, %s, %s, %s, %s)",
        [request.id, namespace, queue, *request.params()],
        Answer,
    )


def unpark_queue(namespace: str, queue: str, limit: int) -> Query[Unparked]:
    """Rings parked jobs of a queue that is not paused any more, at most `limit`."""
    return Query("select * from brokerjobs.unpark_queue(%s, %s, %s)", [namespace, queue, limit], Unparked)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with its routes, who paused it, and how many of its jobs wait and run (10 000: or more)."""

    queue: dict[str, Any]


def queues(namespace: str | None, queue: str | None = None) -> Query[Queue]:
    """Queues that job types use, or used while they have jobs; one that is named comes with its last twenty pauses."""
    return Query("select * from brokerjobs.queues(%s, %s)", [namespace, queue], Queue)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process as its last heartbeat told of it; its state is online, draining, stopped or lost."""

    worker: dict[str, Any]


def workers(namespace: str | None, since: timedelta) -> Query[Worker]:
    """Workers that live, and those that were lost or stopped within `since`."""
    return Query("select * from brokerjobs.workers(%s, %s)", [namespace, since], Worker)


@dataclass(frozen=True, slots=True)
class Explained:
    """What decides where a job may run; None for a job that the ledger does not know."""

    found: dict[str, Any] | None


def explain(job_id: UUID) -> Query[Explained]:
    """Why a job waits."""
    return Query("select brokerjobs.explain(%s)", [job_id], Explained)
