"""Worker processes of the scripted application, and the ways in which they disappear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

from brokerjobs import App
from tests.flow import scripted
from tests.flow.driving import Flow, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from brokerjobs.broker.topology import QueueType
    from brokerjobs.job_type import JobType
    from tests.databases import Database

ROOT = Path(__file__).parents[2]


@dataclass
class WorkerProcess:
    """One real worker process."""

    popen: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone."""
        os.kill(self.popen.pid, number)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.popen.kill()
        self.popen.wait(10)

    async def drain(self) -> int:
        """Ends it in order; answers its exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Waits for its end, while the test's own event loop goes on; answers the exit code, negative for a signal."""

        async def over() -> bool:
            return self.popen.poll() is not None

        await eventually(over, 30)
        return self.popen.returncode

    @property
    def said(self) -> str:
        """What it logged."""
        return self.log.read_text()


@dataclass
class Workers:
    """Worker processes of a module's application on a ledger and a broker, and a folder of marks."""

    made: Flow
    marks: Path
    module: ClassVar[str]

    @contextmanager
    def worker(
        self, name: str = "worker-a", *, kill_at: str = "", clock_seconds: float = 0.0, **settings: str
    ) -> Generator[WorkerProcess]:
        """Starts a worker with settings by their variables; whatever is left of it is killed at the end.

        `clock_seconds`: how far its clock is ahead of this machine's.
        """
        given = {
            "DATABASE_URL": self.made.options.database_url,
            "BROKER_URL": self.made.options.broker_url,
            "WORKER__NAME": name,
            "WORKER__COORDINATOR": "false",
            "WORKER__HEARTBEAT": "1s",
            "WORKER__PROCESSES": "1",
            # A stopped process keeps deliveries until the broker misses two of its heartbeats.
            "BROKER__HEARTBEAT": "2s",
            "TEST_NAMESPACE": self.made.app.namespace,
            "TEST_MARKS": str(self.marks),
            "TEST_KILL_AT": kill_at,
            "TEST_CLOCK_SECONDS": str(clock_seconds or ""),
        } | settings
        environment = {**os.environ, **{f"BROKERJOBS_{key}": value for key, value in given.items() if value}}
        log = self.marks / f"{name}.log"
        with log.open("ab") as file:
            process = WorkerProcess(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.flow.skewed" if clock_seconds else self.module],
                    cwd=ROOT,
                    env=environment,
                    stdout=file,
                    stderr=file,
                ),
                log,
            )
        try:
            yield process
        finally:
            if process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.kill()

    def mark(self, name: str) -> None:
        """Lets a handler that waits for this mark go on."""
        (self.marks / name).touch()

    async def marked(self, name: str) -> None:
        """Waits until a handler has set this mark."""

        async def there() -> bool:
            return (self.marks / name).exists()

        await eventually(there, 20)

    def lines(self, name: str) -> list[str]:
        """Lines of an unfenced effect: the attempts that wrote one."""
        file = self.marks / name
        return file.read_text().split() if file.exists() else []


@dataclass
class Stage(Workers):
    """The scripted application's."""

    repeatable: JobType[list[str], str]
    once: JobType[list[str], str]
    threaded: JobType[list[str], str]
    pooled: JobType[list[str], str]
    pooled_once: JobType[list[str], str]
    module: ClassVar[str] = "tests.flow.scripted"

    async def effects(self) -> list[Any]:
        """Rows of the fenced table: a job id each."""
        async with await psycopg.AsyncConnection.connect(self.made.database.admin_url, autocommit=True) as connection:
            return [row[0] for row in await (await connection.execute("select job_id from effects")).fetchall()]


@asynccontextmanager
async def stage(
    database: Database, namespace: str, broker_url: str, folder: Path, *, queue_type: QueueType = "quorum"
) -> AsyncGenerator[Stage]:
    """Registers the scripted application under a namespace of the test's own."""
    app = App(namespace)
    types: dict[str, Any] = {}
    for name, one in scripted.app.types.items():
        terms = one.terms
        types[name] = app.job_type(
            name,
            list[str],
            str,
            repeatable=terms.repeatable,
            lease=terms.lease,
            time_limit=terms.time_limit,
            retry=terms.retry,
        )
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as connection:
        await connection.execute("create table effects (job_id uuid, fencing_number bigint)")
        await connection.execute("grant insert, select on effects to public")
    async with flow(app, database, broker_url, queue_type=queue_type) as made:
        yield Stage(made, folder, *(types[n] for n in ("repeatable", "once", "threaded", "pooled", "pooled.once")))
