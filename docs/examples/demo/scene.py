"""Where everything of one run is, and what can be asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.examples.pictures.checkpoints import Checkpoint, Where
from brokerjobs.ledger import inquiries
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from brokerjobs import JobType
    from brokerjobs.examples.demo.materials import Materials
    from brokerjobs.examples.demo.servers import Broker, Database

_SETTINGS: Final = """\
[worker]
# One job at a time, so that it is plain which process has what. A worker that is paused keeps the deliveries that it
# was given until the broker misses its heartbeats; with one at a time it has none but that of the job it works on.
concurrency = 1
threads = 1
prefetch = 1
heartbeat = "1s"
drain = "5s"
coordinator = false  # it has a process and a login of its own

[coordinator]
tick = "100ms"  # so that you need not wait for what is due
"""
_PAGE: Final = 1000


@dataclass(slots=True)
class Scene:
    """One run: its folder, its materials, its servers."""

    folder: Path
    materials: Materials
    database: Database
    broker: Broker
    _ledger: LedgerConnection = field(init=False)

    def __post_init__(self) -> None:
        self._ledger = LedgerConnection(ConnectOptions(self.database.urls["reader"]))
        self.checkpoints.mkdir()
        self.settings.write_text(_SETTINGS)

    @property
    def settings(self) -> Path:
        """The settings of all processes but URLs."""
        return self.folder / "brokerjobs.toml"

    @property
    def journal(self) -> Path:
        """The file that every run of a handler writes a line into."""
        return self.folder / "handler-runs.txt"

    @property
    def checkpoints(self) -> Path:
        """The folder in which jobs are held."""
        return self.folder / "checkpoints"

    def log_of(self, name: str) -> Path:
        """What a process wrote."""
        return self.folder / f"{name}.log"

    def checkpoint(self, key: str, where: Where) -> Checkpoint:
        """A place of a job where it may be held."""
        return Checkpoint(self.checkpoints, key, where)

    def find(self, job_type: JobType[Any, Any], key: str) -> UUID | None:
        """The job with this key, None before it is submitted."""
        found = self._ledger.fetch(inquiries.find(job_type.namespace, job_type.name, key))
        return found[0].job_id if found else None

    def record(self, job_id: UUID) -> dict[str, Any]:
        """Everything that the ledger recorded about a job."""
        (row,) = self._ledger.fetch(inquiries.record(job_id))
        return row.record or {}

    def jobs(self) -> list[inquiries.Listed]:
        """All jobs, newest first."""
        return self._ledger.fetch(
            inquiries.list_jobs(inquiries.Filter(namespace=self.broker.app.namespace, limit=_PAGE))
        )

    def handler_runs(self) -> int:
        """How often handlers ran, by the journal."""
        return len(self.journal.read_text().splitlines()) if self.journal.exists() else 0

    def close(self) -> None:
        """Gives the connection back."""
        self._ledger.close()
