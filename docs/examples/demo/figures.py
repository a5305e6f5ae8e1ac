"""What can be counted at the end: by the ledger, by the application's table, and by the unprotected journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerjobs.errors import BrokerjobsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.examples.demo.scene import Scene


class PromiseBroken(BrokerjobsError):
    """What the demo counted is not what brokerjobs promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run in numbers; `broker` and `database` are names and versions, `seconds` is the whole run."""

    broker: str
    database: str
    jobs: int
    succeeded: int
    attempts: int
    rejected_stale: int
    max_effects_per_job: int
    handler_runs: int
    seconds: float

    def check(self) -> None:
        """Raises PromiseBroken if a job had no effect or several, or if nothing went wrong that should have."""
        wrong = [
            text
            for holds, text in (
                (self.max_effects_per_job == 1, f"a job has {self.max_effects_per_job} rows, not 1"),
                (self.rejected_stale >= 1, "no late report was rejected"),
                (self.handler_runs > self.succeeded, "no handler ran twice"),
            )
            if not holds
        ]
        if wrong:
            message = "the demo did not show what it should: " + "; ".join(wrong)
            raise PromiseBroken(message)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the ledger says of all jobs."""

    jobs: int
    succeeded: int
    attempts: int
    rejected_stale: int


def count(scene: Scene) -> Counted:
    """Reads the record of every job."""
    records = [scene.record(job.job_id) for job in scene.jobs()]
    shown = [attempt["state"] for record in records for attempt in record["attempts"]]
    return Counted(
        jobs=len(records),
        succeeded=sum(record["state"] == "succeeded" for record in records),
        attempts=len(shown),
        rejected_stale=shown.count("rejected_stale"),
    )


def summary(figures: Figures) -> Iterator[str]:
    """The run in plain words, a line for each thing that the reader was shown."""
    jobs, attempts, late = figures.jobs, figures.attempts, figures.rejected_stale
    yield f"{jobs} jobs took {attempts} attempts: a job is what is wanted, an attempt is one try of one worker."
    yield "Killed after the commit: the delivery came again, the ledger answered it, and the handler did not run again."
    yield "Killed in the middle: the lease ran out. That proves nothing and permits another attempt, which succeeded."
    yield (
        f"Paused beyond the lease: both attempts came to their end. The ledger had accepted the newer one, so the late "
        f"report was rejected ({late} in all) and kept; what it had inserted was rolled back."
    )
    yield (
        f"Handlers ran {figures.handler_runs} times, and the journal, which nothing protects, has a line for each. "
        f"The fenced table, which has no unique constraint, has at most {figures.max_effects_per_job} row a job."
    )
    if failed := jobs - figures.succeeded:
        yield f"{failed} jobs failed at their first attempt: the files are no pictures, which a retry does not change."
