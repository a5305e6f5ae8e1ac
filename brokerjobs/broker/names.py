"""The names that exchanges, queues and message types have at the broker."""

from __future__ import annotations

DOORBELL_TYPE = "brokerjobs.doorbell"
DEAD_TYPE = "brokerjobs.dead"
REVIEW_TYPE = "brokerjobs.review"
PROBE_TYPE = "brokerjobs.probe"


def jobs_exchange(namespace: str) -> str:
    """Return the direct exchange whose routing keys are route names."""
    return f"{namespace}.jobs"


def route_name(namespace: str, queue: str, needs_hash: str | None = None, lane: str = "normal") -> str:
    """Return the route, which is the RabbitMQ queue, of queue `queue`, a set of needs of workers, and a lane."""
    needs = "" if needs_hash is None else f".{needs_hash}"
    return f"{namespace}.q.{queue}{needs}{'' if lane == 'normal' else f':{lane}'}"


def namespace_of(route: str) -> str:
    """Return the namespace of a route; raises `ValueError` if it is no name of a route."""
    namespace, middle, queue = route.partition(".q.")
    if not (namespace and middle and queue) or "." in namespace:
        message = f"{route!r} is no route: its name must be {{namespace}}.q.{{queue}}"
        raise ValueError(message)
    return namespace


def dead_exchange(namespace: str) -> str:
    """Return the topic exchange, by job type, of jobs that ended failed, and of reviews that opened; for users."""
    return f"{namespace}.dead"


def dead_queue(namespace: str) -> str:
    """Return the queue that keeps what `dead_exchange` gets; any user may bind others."""
    return f"{namespace}.dead"


def quarantine_exchange(namespace: str) -> str:
    """Return the fanout exchange of messages that are not ours to run, or were delivered too often."""
    return f"{namespace}.quarantine"


def quarantine_queue(namespace: str) -> str:
    """Return the queue that keeps what `quarantine_exchange` gets."""
    return f"{namespace}.quarantine"
