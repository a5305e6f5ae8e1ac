"""How a worker runs, independent of where the values come from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.capabilities import Capabilities
from brokerjobs.rules.leases import check_renewal
from brokerjobs.telemetry.attempts import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from brokerjobs.errors import TopologyMismatch
    from brokerjobs.job_type import JobType
    from brokerjobs.ledger.calls import ProcessIdentity
    from brokerjobs.ledger.services import Leader, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of one worker process; every default is that of config/brokerjobs.toml."""

    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    concurrency: int = 20
    threads: int = 8
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    deliveries: int = 40
    renewal: timedelta | None = None
    drain: timedelta = timedelta(seconds=25)
    stop_grace: timedelta = timedelta(seconds=10)
    """How long a handler that was told to stop may go on, at most a third of its lease."""
    leaked_threads: int | None = None
    """At how many handlers that cannot be stopped the worker is replaced; half of `threads` if it is left out."""
    heartbeat: timedelta = timedelta(seconds=10)
    broker_heartbeat: timedelta = timedelta(seconds=15)
    consumer_timeout: timedelta = timedelta(minutes=30)
    """The broker's own: attempts that may run longer than half of it are acknowledged when they are claimed."""
    hand_back: timedelta = timedelta(minutes=5)
    """How long a delivery waits for a free slot before it is given back."""
    clock_skew: timedelta = timedelta(seconds=1)
    reconcile: timedelta = timedelta(seconds=10)
    """How often a worker whose types have reconcilers looks for open reviews that are due."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What this worker has, detected and declared: which jobs qualify for it."""
    join_window: timedelta = timedelta(seconds=60)
    topology: Topology = Topology.AUTO
    """Whether attempts are traced below the creation of their job, and for how long after it."""
    artifacts: StoreOptions = field(default_factory=StoreOptions)
    """Where handlers stage artifacts; looked at when the first one does."""
    probe_host: str = "127.0.0.1"
    probe_port: int | None = None
    """Where `/livez`, `/readyz` and `/startupz` are answered; None: nowhere."""
    alive_file: Path | None = None
    """Touched whenever the ledger has answered a heartbeat while the event loop went on."""

    @property
    def leaks_at_most(self) -> int:
        """At how many handlers that cannot be stopped the worker is replaced."""
        return self.leaked_threads or max(1, self.threads // 2)


@dataclass(frozen=True, slots=True)
class Duty:
    """Who this worker is, and the job types that it handles."""

    process: ProcessIdentity
    namespace: str
    types: Mapping[str, JobType[Any, Any]]


def check(duty: Duty, options: WorkerOptions) -> None:
    """Raises ConfigurationError for a worker that could run nothing, or could not keep a lease."""
    if not any(job_type.handled_by for job_type in duty.types.values()):
        message = f"no job type of namespace {duty.namespace!r} has a handler here; import the modules that define them"
        raise ConfigurationError(message)
    for job_type in duty.types.values():
        if options.renewal is not None:
            check_renewal(job_type.terms.lease, options.renewal, job_type=job_type.name)


class Services(Protocol):
    """The coordinator services that may run inside a worker."""

    def hear(self, leaders: Sequence[Leader]) -> None:
        """Takes the answer of a heartbeat: who leads what."""
        ...

    async def declare(self, wanted: Sequence[Route]) -> Sequence[TopologyMismatch]:
        """Declares routes at once, as far as it may and can; answers what stands in the way."""
        ...

    async def run(self) -> None:
        """Runs until it is cancelled."""
        ...

    async def hand_over(self) -> None:
        """Gives up what this process leads."""
        ...
