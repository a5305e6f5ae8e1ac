"""What happens to the processes: killed between effect and acknowledgement, paused beyond the lease.

Nothing here sleeps for a time that was guessed: each step waits for what the ledger or a process says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from brokerjobs.examples.demo.cast import WORKERS
from brokerjobs.examples.pictures.checkpoints import Where
from brokerjobs.examples.pictures.contracts import make_thumbnail, rebuild_report
from brokerjobs.examples.pictures.producer import report_key, thumbnail_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from brokerjobs import JobType
    from brokerjobs.examples.demo.cast import Cast
    from brokerjobs.examples.demo.scene import Scene
    from brokerjobs.examples.demo.voice import Voice

T = TypeVar("T")

_POLL_SECONDS: Final = 0.03
_PATIENCE_SECONDS: Final = 60.0
# A reader's own pictures may be many and large.
_LONG_PATIENCE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Star:
    """A job that is held at one place of its first attempt."""

    scene: Scene
    job_type: JobType[Any, Any]
    key: str
    where: Where

    @property
    def name(self) -> str:
        """What it works on."""
        return self.key.partition(":")[2]

    def hold(self) -> None:
        """Has its handler wait at the place."""
        self.scene.checkpoint(self.key, self.where).hold()

    def release(self) -> None:
        """Lets its handler go on."""
        self.scene.checkpoint(self.key, self.where).release()

    def held_by(self) -> int | None:
        """The process whose handler waits."""
        return self.scene.checkpoint(self.key, self.where).reached_by()

    @property
    def job_id(self) -> UUID:
        """The job; it has been submitted."""
        found = self.scene.find(self.job_type, self.key)
        if found is None:
            raise LookupError(self.key)
        return found

    def record(self) -> dict[str, Any]:
        """What the ledger recorded about it."""
        return self.scene.record(self.job_id)


@dataclass(frozen=True, slots=True)
class Story:
    """A job that something happened to."""

    title: str
    star: Star


@dataclass(slots=True)
class Acts:
    """Breaks things in front of the reader."""

    scene: Scene
    cast: Cast
    voice: Voice

    def run(self) -> list[Story]:
        """All acts in order, until the producer has all its results; tells what happened to which job."""
        first, second = self.scene.materials.starring
        committed = Star(self.scene, make_thumbnail, thumbnail_key(first), Where.AFTER_COMMIT)
        half_done = Star(self.scene, make_thumbnail, thumbnail_key(second), Where.BEFORE_COMMIT)
        paused = Star(self.scene, rebuild_report, report_key(self.scene.materials.sales), Where.BEFORE_COMMIT)
        for star in (committed, half_done, paused):
            star.hold()
        self._raise_curtain()
        self._kill(committed, half_done)
        self._pause(paused)
        self._until("the producer ends", self.cast.producer_is_done)
        return [
            Story("killed after its commit, before its acknowledgement", committed),
            Story("killed in the middle of its work", half_done),
            Story("paused beyond its lease", paused),
        ]

    def _raise_curtain(self) -> None:
        self.cast.start_coordinator()
        pids = [f"{name} ({self.cast.start_worker(name)})" for name in WORKERS]
        self.cast.start_producer()
        self.voice.tell(
            f"started {' and '.join(pids)}, a coordinator, and a producer with {self.scene.materials.count} pictures"
        )

    def _kill(self, committed: Star, half_done: Star) -> None:
        """SIGKILL to the two workers that have the jobs, one each, and new processes in their places."""
        with self.voice.waiting("waiting until both workers are where it hurts"):
            names = [self._holder(committed), self._holder(half_done)]
        self.voice.tell(
            f"{committed.name}: {names[0]} has committed its row and its result, and acknowledged nothing yet"
        )
        self.voice.tell(
            f"{half_done.name}: {names[1]} has written its file and a journal line, and committed nothing yet"
        )
        self.voice.broke("kill -KILL " + " ".join(f"{self.cast.pid_of(name)} ({name})" for name in names))
        self.cast.kill(names)
        again = " and ".join(f"{name} ({self.cast.start_worker(name)})" for name in sorted(names))
        self.voice.tell(f"started again, as a supervisor would: {again}")
        with self.voice.waiting(f"the broker delivers {committed.name} again"):
            by = self._until("a second delivery", lambda: _answered_delivery(committed.record()))
        self.voice.mended(
            f"{committed.name}: delivered again to {by}; the ledger says that it is done, no handler runs"
        )
        with self.voice.waiting(f"the lease of {half_done.name} runs out, and somebody claims it again"):
            record = self._until("a second attempt", lambda: _succeeded(half_done.record()))
        self.voice.mended(f"{half_done.name}: {_accepted(record)}")

    def _pause(self, star: Star) -> None:
        """SIGSTOP in the middle of a transaction, until another worker has been accepted; then SIGCONT."""
        with self.voice.waiting("thumbnails, then the report") as detail:
            name = self._holder(star, lambda: detail(self._progress))
        pid = self.cast.pid_of(name)
        self.voice.tell(f"{star.name}: {name} has inserted its row, and not committed yet")
        self.cast.stop(name)
        self.voice.broke(f"kill -STOP {pid} ({name}): it does nothing more, and does not know it")
        with self.voice.waiting(f"the lease of {star.name} runs out, and somebody else claims it"):
            record = self._until("a second attempt", lambda: _succeeded(star.record()))
        self.voice.mended(f"{star.name}: {_accepted(record)}")
        star.release()
        self.cast.resume(name)
        self.voice.broke(f"kill -CONT {pid} ({name}): it goes on, and tries to commit")
        reason = self._until("a late report", lambda: _rejected(star.record()))
        self.voice.mended(f"{star.name}: its late report is rejected ({reason}) and kept, its row is rolled back")

    def _holder(self, star: Star, meanwhile: Callable[[], None] = lambda: None) -> str:
        """Waits until a worker's handler is at the star's place; which worker."""

        def look() -> int | None:
            meanwhile()
            return star.held_by()

        return self.cast.name_of(self._until(f"{star.name} is worked on", look, _LONG_PATIENCE_SECONDS))

    def _progress(self) -> str:
        done = sum(job.state == "succeeded" for job in self.scene.jobs())
        return f"{done} of {self.scene.materials.count + 1} jobs have succeeded"

    def _until(self, what: str, condition: Callable[[], T | None], patience: float = _PATIENCE_SECONDS) -> T:
        """Asks until the answer is true; raises ProcessEnded if a process ends meanwhile, or after `patience`."""
        end = time.monotonic() + patience
        while not (answer := condition()):
            self.cast.check()
            if time.monotonic() > end:
                raise self.cast.failed(f"this did not happen within {patience:g} s: {what}")
            time.sleep(_POLL_SECONDS)
        return answer


def _answered_delivery(record: dict[str, Any]) -> str | None:
    """Who was given a delivery of the job that was already done, None if nobody."""
    answered = (event for event in record["events"] if event["kind"] == "duplicate_delivery")
    return next((event["detail"]["worker"] for event in answered), None)


def _succeeded(record: dict[str, Any]) -> dict[str, Any] | None:
    return record if record["state"] == "succeeded" else None


def _accepted(record: dict[str, Any]) -> str:
    accepted = next(one for one in record["attempts"] if one["id"] == record["accepted_attempt"])
    return f"attempt 1 timed out, attempt {accepted['number']} by {accepted['worker']} is accepted"


def _rejected(record: dict[str, Any]) -> str | None:
    """Why the first attempt's report was rejected, None if it has not reported."""
    report = record["attempts"][0]["report"]
    return None if report is None else str(report["reason"] or report["verdict"])
