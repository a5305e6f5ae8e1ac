"""Dealing with many failed jobs: in bounded batches, at a pace, each asked again while its row is busy."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli import decision, output
from brokerjobs.cli.failures import NotFound, Refused
from brokerjobs.ledger import decisions
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from brokerjobs.ledger.database import LedgerConnection, Query
    from brokerjobs.ledger.decisions import Dealt, Request

_BATCH: Final = 200
_LOCKED_PAUSE_SECONDS: Final = 0.1
_LOCKED_TRIES: Final = 50
_NAMED: Final = 5  # jobs that a message names
_WHY: Final = {
    "deadline": "its deadline has passed: --deadline gives it a new one",
    "refused": "it has not failed, or not any more",
    "unknown": "the ledger has no such job",
    "locked": "somebody is writing it just now",
    "request_reused": "--request was used for something else about it",
}


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs to deal with: some by their ids, or all of a group, page by page in the order of their ids."""

    ledger: LedgerConnection
    ids: list[UUID]
    group: str | None

    def parts(self, size: int) -> Iterator[list[UUID]]:
        """The jobs, at most `size` at once; of a group what is there when its page is reached."""
        if self.group is None:
            yield from decision.batches(self.ids, size)
            return
        after: UUID | None = None
        while rows := self.ledger.fetch(decisions.dead_jobs(self.group, after, size)):
            yield [row.job_id for row in rows]
            after = rows[-1].job_id


@dataclass(slots=True)
class Pace:
    """At most `rate` jobs a second, None for as many as can be."""

    rate: float | None
    begun: float = field(default_factory=time.monotonic)
    taken: int = 0

    @property
    def size(self) -> int:
        """How many jobs go in one batch: what a second may take, within bounds."""
        return _BATCH if self.rate is None else max(1, min(_BATCH, int(self.rate)))

    def wait(self, count: int) -> None:
        """Wait until `count` more jobs may be taken."""
        if self.rate is not None:
            due = self.begun + self.taken / self.rate
            time.sleep(max(0.0, due - time.monotonic()))
        self.taken += count


@dataclass(slots=True)
class Tally:
    """What became of the jobs."""

    whole_group: bool
    done: int = 0
    repeated: int = 0
    left: dict[str, list[UUID]] = field(default_factory=dict[str, "list[UUID]"])

    def take(self, rows: list[Dealt], verdict: str) -> None:
        """Count the answers of one batch."""
        for row in rows:
            if row.verdict == verdict:
                self.done += 1
                self.repeated += row.repeated
            else:
                self.left.setdefault(row.verdict, []).append(row.job_id)


def carry_out(
    jobs: Jobs, pace: Pace, asked: Request, query: Callable[[list[UUID]], Query[Dealt]], verdict: str
) -> Tally:
    """Deal with all jobs; `verdict` is what the ledger answers to those that were dealt with."""
    tally = Tally(whole_group=jobs.group is not None)
    for part in jobs.parts(pace.size):
        pace.wait(len(part))
        tally.take(_dealt(jobs.ledger, part, asked, query), verdict)
        if jobs.group is not None and len(part) == pace.size:
            output.say(f"{verdict} {tally.done} so far")
    return tally


def _dealt(
    ledger: LedgerConnection, part: list[UUID], asked: Request, query: Callable[[list[UUID]], Query[Dealt]]
) -> list[Dealt]:
    """The answers for these jobs; those whose rows are busy are asked again for five seconds."""
    answers: list[Dealt] = []
    busy: list[Dealt] = []
    for _ in range(_LOCKED_TRIES):
        rows = decision.ask(ledger, query(part), asked)
        answers += [row for row in rows if row.verdict != "locked"]
        busy = [row for row in rows if row.verdict == "locked"]
        if not busy:
            return answers
        part = [row.job_id for row in busy]
        time.sleep(_LOCKED_PAUSE_SECONDS)
    return answers + busy


def tell(tally: Tally, asked: Request, output_format: output.Format, *, schema: str, done: str) -> None:
    """Say what was done; raises NotFound or Refused if something was left alone."""
    if output_format is output.Format.JSON:
        left: dict[str, Any] = {why: [str(job) for job in jobs] for why, jobs in tally.left.items()}
        output.put_json(
            {
                "schema": schema,
                "request": str(asked.id),
                done: tally.done,
                "repeated": tally.repeated,
                "left": left,
            }
        )
    else:
        again = f", {tally.repeated} of them before" if tally.repeated else ""
        output.put(f"{done} {counted(tally.done, 'job', 'jobs')}{again}")
    # A job that left its group meanwhile was nobody's wish in particular.
    left_alone = {why: jobs for why, jobs in tally.left.items() if not (tally.whole_group and why == "refused")}
    if not left_alone:
        return
    lines = [f"{_named(jobs)}: {_WHY.get(why, why)}" for why, jobs in left_alone.items()]
    first = next(iter(left_alone.values()))[0]
    message = f"{counted(sum(map(len, left_alone.values())), 'job was', 'jobs were')} left alone:"
    raised = NotFound if left_alone.keys() == {"unknown"} else Refused
    raise raised("\n".join([message, *lines]), hint=f"brokerjobs jobs show {first}")


def _named(jobs: list[UUID]) -> str:
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return ", ".join(map(str, jobs[:_NAMED])) + more
