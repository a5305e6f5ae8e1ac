"""The outbox: from where may a relay's next scan start, and what does it forget when it marks a publish?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.model.search import Step

if TYPE_CHECKING:
    from collections.abc import Iterator


class Row(NamedTuple):
    """A ring that a transaction writes; rows are numbered in the order in which they are written."""

    state: str = "unwritten"  # written (not yet committed), there, gone
    held: bool = False  # its writer publishes it itself, and leaves it to the relay only a while later


class Table(NamedTuple):
    """The outbox, and the mark of the relay's last scan."""

    rows: tuple[Row, ...]
    mark: int = 0
    next_mark: int | None = None  # of a scan that goes on: what it will leave behind


@dataclass(frozen=True, slots=True)
class RelayMark:
    """Scans that start at a mark: the number after the last row seen, or the oldest transaction that may still come."""

    mark: Literal["number", "transaction"]

    def first(self) -> Table:
        """Three rings will be written, the second by a client that announces it itself."""
        return Table((Row(), Row(held=True), Row()))

    def is_end(self, state: Table) -> bool:
        """Every ring was published."""
        return all(row.state == "gone" for row in state.rows)

    def broken(self, _before: Table, _after: Table, _step: Step) -> str | None:
        """Nothing is promised of a single step; what counts is that every ring can still be published."""
        return None

    def happenings(self, state: Table) -> Iterator[tuple[Step, Table]]:
        """Everything that can happen next."""
        rows = state.rows
        for number, row in enumerate(rows):
            written = number == 0 or rows[number - 1].state != "unwritten"
            if row.state == "unwritten" and written:
                yield Step(f"ring {number} is written"), _row(state, number, row._replace(state="written"))
            if row.state == "written":
                yield Step(f"ring {number} is committed"), _row(state, number, row._replace(state="there"))
            if row.held and row.state == "there":
                yield Step(f"ring {number} is left to the relay"), _row(state, number, row._replace(held=False))
        if state.next_mark is None:
            yield Step("a scan begins"), state._replace(next_mark=self._mark_before(state))
        else:
            yield Step("the scan publishes what it sees"), self._scanned(state)

    def _mark_before(self, state: Table) -> int:
        """The oldest transaction that runs when the scan begins; numbers say nothing of that."""
        return next((n for n, row in enumerate(state.rows) if row.state in {"written", "unwritten"}), len(state.rows))

    def _scanned(self, state: Table) -> Table:
        assert state.next_mark is not None
        seen = [n for n, row in enumerate(state.rows) if n >= state.mark and row.state == "there" and not row.held]
        rows = tuple(row._replace(state="gone") if n in seen else row for n, row in enumerate(state.rows))
        left = [n for n, row in enumerate(rows) if n >= state.mark and row.state == "there"]
        if self.mark == "number":
            return Table(rows, min([*left, max([state.mark, *(n + 1 for n in seen)])]))
        return Table(rows, min([*left, state.next_mark]))


def _row(state: Table, number: int, row: Row) -> Table:
    return state._replace(rows=(*state.rows[:number], row, *state.rows[number + 1 :]))


class Bell(NamedTuple):
    """One job, its rings in the outbox by ticket, and the relay's hand."""

    job: str = "waits"  # runs, done
    rings: frozenset[int] = frozenset({0})
    taken: int | None = None  # the ticket that the relay has published and not yet marked
    messages: int = 0
    releases: int = 2  # that may still happen


@dataclass(frozen=True, slots=True)
class RingRows:
    """A row for each ring, or one row a job that every ring makes anew."""

    one_a_job: bool

    def first(self) -> Bell:
        """The job waits, its ring is in the outbox."""
        return Bell()

    def is_end(self, state: Bell) -> bool:
        """The job is done."""
        return state.job == "done"

    def broken(self, _before: Bell, _after: Bell, _step: Step) -> str | None:
        """Nothing is promised of a single step; what counts is that somebody will ring."""
        return None

    def happenings(self, state: Bell) -> Iterator[tuple[Step, Bell]]:
        """Everything that can happen next."""
        if state.taken is None:
            for ticket in state.rings:
                yield (
                    Step(f"the relay publishes ring {ticket}"),
                    state._replace(taken=ticket, messages=state.messages + 1),
                )
        else:
            marked = state.rings - {state.taken}
            yield Step(f"the relay marks ring {state.taken}"), state._replace(taken=None, rings=marked)
        if state.messages:
            claimed = state._replace(messages=state.messages - 1, job="runs" if state.job == "waits" else state.job)
            yield Step("claim"), claimed
        if state.job == "runs":
            yield Step("complete"), state._replace(job="done")
            if state.releases:
                ticket = 0 if self.one_a_job else 3 - state.releases
                rung = state.rings | {ticket}
                yield Step("release"), state._replace(job="waits", rings=rung, releases=state.releases - 1)
