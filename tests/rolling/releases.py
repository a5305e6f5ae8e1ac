"""Two releases of brokerjobs on one ledger and one broker: each command says which of them runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from brokerjobs.broker import names, removal
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.cli.command import Command, Done, Running
    from tests.databases import Database

ROOT = Path(__file__).parents[2]
# The last commit of the release before this one.
PREVIOUS = "6d08bb389b3a2cfa74e7e667613011534b34b0ce"
_PATIENCE_SECONDS = 60.0
_STATES: LiteralString = (
    "select job_id, state, waiting, wait_until, wait_detail, number, lease_until, rung_at, failure_reason"
    " from brokerjobs.job_state where job_id = any (%s::uuid[]) and state <> 'succeeded'"
)
_ATTEMPTS: LiteralString = (
    "select job_id, number, worker, claimed_at, closed_at, closed_as, verdict, failure ->> 'message' as message"
    " from brokerjobs.attempt where job_id = any (%s::uuid[]) and verdict is distinct from 'accepted' order by 1, 2"
)
_EVENTS: LiteralString = (
    "select e.job_id, e.at, e.kind, e.state, e.detail from brokerjobs.event e join brokerjobs.job_state s"
    " using (job_id) where job_id = any (%s::uuid[]) and s.state <> 'succeeded' order by seq"
)
_PROCESSES: LiteralString = (
    "select name, state, heartbeat_at, detail::text from brokerjobs.worker"
    " union all select holder_name, name, ticked_at, until::text from brokerjobs.service"
)


def extract_previous(folder: Path) -> str | None:
    """Put the package of the previous release into `folder`; answers why that cannot be done, and fetches nothing."""
    git = shutil.which("git")
    if git is None:
        return "git is not installed"
    known = subprocess.run(
        [git, "-C", ROOT, "cat-file", "-e", f"{PREVIOUS}^{{commit}}"], capture_output=True, check=False
    )
    if known.returncode != 0:
        return f"the commit {PREVIOUS[:7]} of the previous release is not in this copy's history"
    packed = subprocess.run(
        [git, "-C", ROOT, "archive", "--format=tar", PREVIOUS, "brokerjobs"], capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        # Files alone: a link to the examples leads nowhere here, and the releases need none.  By hand, since the safe
        # filter of `extractall` came with Python 3.11.4.
        for one in archive.getmembers():
            if (content := archive.extractfile(one) if one.isfile() else None) is not None:
                place = folder / one.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
    return None


@dataclass
class Release:
    """One release: its commands, its workers and coordinators, its producer."""

    command: Command
    database: Database

    def setup(self) -> None:
        """Run its `brokerjobs setup`, as the owner, with all grants."""
        grants = [f"--grant={kind}=brokerjobs_test_{kind}" for kind in ("producer", "worker", "coordinator", "reader")]
        self.run("setup", "till:app", *grants, database_url=self.database.owner_url).ok()

    def run(self, *args: str, database_url: str) -> Done:
        """Run one of its commands to its end."""
        return self.command.process(*args, env={"BROKERJOBS_DATABASE_URL": database_url})

    def worker(self, name: str, *more: str, url: str | None = None) -> AbstractContextManager[Running]:
        """One of its workers, without the coordinator's services unless they are asked for."""
        services = () if "--coordinator" in more else ("--no-coordinator",)
        return self.command.running(
            "worker",
            "till:app",
            "--name",
            name,
            *services,
            *more,
            said="is up",
            env={
                "BROKERJOBS_DATABASE_URL": url or self.database.worker_url,
                "BROKERJOBS_WORKER__HEARTBEAT": "500ms",
                "BROKERJOBS_BROKER__HEARTBEAT": "2s",
            },
        )

    def coordinator(self, **settings: str) -> AbstractContextManager[Running]:
        """One of its coordinators."""
        env = {
            "BROKERJOBS_DATABASE_URL": self.database.coordinator_url,
            "BROKERJOBS_WORKER__HEARTBEAT": "500ms",
            "BROKERJOBS_COORDINATOR__TICK": "100ms",
            "BROKERJOBS_COORDINATOR__SERVICE_LEASE": "2s",
        }
        return self.command.running("coordinator", said="leads", env=env | settings)

    def produce(self, count: int) -> list[str]:
        """Let its client submit jobs of every kind; answers their ids."""
        return self._python("till.py", str(count)).split()

    def where(self) -> Path:
        """The file of the package that its processes import."""
        return Path(self._python("-c", "import brokerjobs; print(brokerjobs.__file__)").strip())

    def _python(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=self.command.folder,
            env=self.command.environment({"BROKERJOBS_DATABASE_URL": self.database.producer_url}),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass
class Look:
    """What has become of the jobs, read from the tables by their owner."""

    database: Database
    broker_url: str
    namespace: str

    def rows(self, query: LiteralString, *params: Any) -> list[dict[str, Any]]:
        """The rows that a query answers."""
        with (
            psycopg.connect(self.database.owner_url) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute(query, params).fetchall()

    def submit_hold(self, mark: Path, kind: str = "hold") -> str:
        """Submit, from SQL, a job that lasts until the mark is there, and wait until it has begun."""
        with psycopg.connect(self.database.producer_url, autocommit=True) as connection:
            row = connection.execute(
                "select job_id from brokerjobs.submit_v1(%s, %s, to_jsonb(%s::text))", [self.namespace, kind, str(mark)]
            ).fetchone()
        assert row is not None
        eventually_sync(Path(f"{mark}.begun").exists, _PATIENCE_SECONDS)
        return str(row[0])

    def wait_until_succeeded(self, jobs: list[str]) -> None:
        """Wait until all of these jobs have succeeded."""

        self.wait_until(
            jobs,
            lambda: (
                not self.rows(
                    "select job_id from brokerjobs.job_state where job_id = any (%s::uuid[]) and state <> 'succeeded'",
                    jobs,
                )
            ),
        )

    def wait_until(self, jobs: list[str], holds: Callable[[], bool]) -> None:
        """Wait until this holds; if it never does, the error says where these jobs stand and who is there."""
        try:
            eventually_sync(holds, _PATIENCE_SECONDS)
        except AssertionError as error:
            for query in (_STATES, _ATTEMPTS, _EVENTS):
                for row in self.rows(query, jobs):
                    error.add_note(str(row))
            for row in self.rows(_PROCESSES):
                error.add_note(str(row))
            raise

    def workers_of(self, jobs: list[str]) -> list[str]:
        """The workers whose results were accepted, in the order of the jobs."""
        rows = self.rows(
            "select a.worker from unnest(%s::uuid[]) with ordinality j (id, place) join brokerjobs.attempt a"
            " on a.job_id = j.id and a.verdict = 'accepted' order by j.place",
            jobs,
        )
        return [row["worker"] for row in rows]

    def attempts_of(self, job: str) -> list[dict[str, Any]]:
        """The attempts of a job."""
        return self.rows("select number, worker from brokerjobs.attempt where job_id = %s", job)

    async def quarantined(self) -> list[Any]:
        """What went to quarantine, in the ledger and at the broker."""
        kept = await removal.message_count(self.broker_url, names.quarantine_queue(self.namespace))
        return [*self.rows("select route, reason from brokerjobs.quarantine"), *range(kept or 0)]
