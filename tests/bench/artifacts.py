"""Artifacts of a file: staged in a folder and fetched again, beside `sha256sum` plus `cp` of the same file.

What is ours runs in a process of its own (`python -m tests.bench.artifacts …`): its memory is that of nothing else, and
its fsyncs are told apart.  The others leave what they wrote to the operating system's leisure.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from uuid_utils.compat import uuid7

from brokerjobs.artifacts import handover
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.staging import ThreadArtifacts
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.broker.names import route_name
from brokerjobs.ledger import artifacts, calls
from brokerjobs.ledger.calls import Holding
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from tests.bench.stage import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from brokerjobs.ledger.artifacts import GivenUp, Ready, Staged, Upload, Uploaded
    from tests.bench.stage import Stage

_MIB = 2**20


@dataclass(frozen=True)
class Handed:
    """Medians of seconds; ratios are of `sha256sum` plus `cp` to ours, fsync included; `most_mb` is resident memory."""

    mib: int
    sha256sum_s: float
    cp_s: float
    put_s: float
    put_fsync_s: float
    fetch_s: float
    fetch_fsync_s: float
    put_ratio: float
    fetch_ratio: float
    most_mb: float


async def measured(stage: Stage, mib: int, rounds: int, say: Callable[[str], None]) -> Handed:
    """Interleaved rounds over one file; the ratios are medians of the rounds' own."""
    namespace = await stage.namespace()
    (job,) = await stage.fill(namespace, 1)
    taken: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="brokerjobs-bench-") as name:
        folder = Path(name)
        file = folder / "file"
        with file.open("wb") as out:
            for _ in range(mib):
                out.write(os.urandom(_MIB))
        theirs = {"sha256sum": ("sha256sum", str(file)), "cp": ("cp", str(file), str(folder / "cp"))}
        os.sync()  # what was just made is not to be written while others are measured
        with _ours(stage.database_url, namespace, str(job), folder) as ask:
            for number in range(1, rounds + 1):
                one: dict[str, float] = {}
                for what in ("put", "fetch"):
                    # Right before each: memory that was just given back is faster than what nobody has had for long.
                    peer = {f"{name} before {what}": _timed(*command) for name, command in theirs.items()}
                    (folder / "cp").unlink()
                    one |= peer | ask(what)
                    one[f"{what}_ratio"] = sum(peer.values()) / one[what]
                taken.append(one)
                say(f"round {number} of {rounds}: " + ", ".join(f"{what} {value:.2f}" for what, value in one.items()))
    middle = {what: round(statistics.median(one[what] for one in taken), 3) for what in taken[0]}
    return Handed(
        mib,
        round((middle["sha256sum before put"] + middle["sha256sum before fetch"]) / 2, 3),
        round((middle["cp before put"] + middle["cp before fetch"]) / 2, 3),
        middle["put"],
        middle["put_fsync"],
        middle["fetch"],
        middle["fetch_fsync"],
        middle["put_ratio"],
        middle["fetch_ratio"],
        max(one["most_mb"] for one in taken),
    )


def _timed(*command: str) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


@contextmanager
def _ours(database_url: str, namespace: str, job: str, folder: Path) -> Generator[Callable[[str], dict[str, float]]]:
    """A process that puts and fetches when it is asked to."""
    command = [sys.executable, "-m", "tests.bench.artifacts", database_url, namespace, job, str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line, answers = process.stdin, process.stdout
    if line is None or answers is None:
        raise AssertionError

    def ask(what: str) -> dict[str, float]:
        line.write(f"{what}\n")
        line.flush()
        found: dict[str, float] = json.loads(answers.readline())
        return found

    try:
        yield ask
    finally:
        line.close()
        answers.close()
        process.wait(60)


class _Ledger:
    """The calls of one attempt, on a connection of its own."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    def stage(self, upload: Upload, /) -> Staged:
        return self._connection.fetch(artifacts.artifact_stage([upload]))[0]

    def ready(self, uploaded: Uploaded, /) -> Ready:
        return self._connection.fetch(artifacts.artifact_ready([uploaded]))[0]

    def discard(self, given_up: GivenUp, /) -> None:
        self._connection.fetch(artifacts.artifact_discard([given_up]))

    def check(self) -> None:
        """The attempt stands."""


class _Stopwatch:
    """Seconds, and those of them that fsync took."""

    def __init__(self) -> None:
        self._fsync = 0.0
        sync = os.fsync

        def timed(file: Any) -> None:
            started = time.monotonic()
            sync(file)
            self._fsync += time.monotonic() - started

        os.fsync = timed  # type: ignore[assignment]  # whose parameter has another name

    def taken(self, what: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """What it answers, and how long it took."""
        self._fsync, started = 0.0, time.monotonic()
        answer = work()
        return answer, {what: time.monotonic() - started, f"{what}_fsync": self._fsync, "most_mb": _most_mb()}


def _most_mb() -> float:
    """The most that this process has held, in MB; ru_maxrss would have begun with what its parent held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return round(int(found[1]) / 1000, 1) if found else float("nan")


def _claim(connection: LedgerConnection, namespace: str, job: str) -> Holding:
    process = calls.ProcessIdentity(uuid7(), "bench", "host", os.getpid())
    now = datetime.now(UTC)
    request = calls.ClaimRequest(UUID(job), uuid7(), route_name(namespace, "default"), uuid7(), False, now)
    (claimed,) = connection.fetch(calls.claim(process, namespace, ["noop"], [request]))
    return Holding(claimed.job_id, claimed.attempt_id, claimed.fencing_number)


def main(database_url: str, namespace: str, job: str, folder: str) -> None:
    """Puts `file` of the folder, and fetches what was put last, as standard input says."""
    connection = LedgerConnection(ConnectOptions(database_url))
    store = ArtifactStore(StoreOptions(url=f"{folder}/store"))
    ledger = _Ledger(connection)
    ours = ThreadArtifacts(_claim(connection, namespace, job), lambda: store, ledger, ledger)
    file, to = Path(folder) / "file", Path(folder) / "copy"
    watch = _Stopwatch()
    made: Any = None
    for number, line in enumerate(sys.stdin):
        if line.strip() == "put":
            made, times = watch.taken("put", lambda: ours.put(f"file {number}", file))  # noqa: B023  # called at once
        else:
            (staged,) = connection.fetch(artifacts.artifact(made.id))
            _, times = watch.taken("fetch", lambda: handover.fetch(store, staged, to))  # noqa: B023  # ditto
            to.unlink()
            store.delete(staged.path)
        print(json.dumps(times), flush=True)
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
