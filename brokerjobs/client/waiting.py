"""One batched poll for everybody who waits for a result.

A waiter is asked for at once, then after 50 ms, doubling to 1 s.  Repeated questions fall on a grid of 50 ms, so that
any number of waiters costs at most twenty polls a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import (
    BrokerjobsError,
    ConfigurationError,
    JobNotFound,
    LedgerUnavailable,
    LoginRefused,
    ResultTimeout,
)
from brokerjobs.ledger.group_commit import MAX_ROWS
from brokerjobs.ledger.inquiries import Outcome, results
from brokerjobs.rules.states import FINISHED, JobState

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from brokerjobs.ledger.database import AsyncLedgerConnection

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
_ANSWERS: Final = frozenset(str(state) for state in (*FINISHED, JobState.REVIEW))


@dataclass(slots=True, eq=False)
class _Waiter:
    job_id: UUID
    answer: asyncio.Future[Outcome]
    pause: float = FIRST_PAUSE_SECONDS
    due: float = field(default_factory=time.monotonic)
    standing: str = "in an unknown state"
    trouble: LedgerUnavailable | None = None
    answered: bool = False

    def fail(self, error: BrokerjobsError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def refuse(self, error: LoginRefused) -> None:
        """Ends the wait of whoever was never let in; a login that worked before may come back."""
        if self.answered:
            self.trouble = error
        else:
            self.fail(error)

    def hear(self, outcome: Outcome | None) -> None:
        """Takes what a poll said of the job."""
        self.trouble, self.answered = None, True
        if outcome is None:
            self.fail(JobNotFound(job_id=self.job_id))
        elif outcome.state in _ANSWERS:
            if not self.answer.done():
                self.answer.set_result(outcome)
        else:
            self.standing = f"{outcome.state} ({outcome.waiting})" if outcome.waiting else outcome.state

    def wait_on(self, now: float) -> None:
        """Puts the next question on the grid, twice as far away as the last one."""
        self.due = math.ceil((now + self.pause) / FIRST_PAUSE_SECONDS) * FIRST_PAUSE_SECONDS
        self.pause = min(self.pause * 2, LONGEST_PAUSE_SECONDS)


class Waiting:
    """Asks the ledger for all waiters together; `run` is its loop."""

    def __init__(self, ledger: AsyncLedgerConnection) -> None:
        self._ledger = ledger
        self._waiters: set[_Waiter] = set()
        self._new = asyncio.Event()

    async def outcome(self, job_id: UUID, timeout: timedelta) -> Outcome:  # noqa: ASYNC109  # each waiter has its own
        """What ended the job or put it into review. Raises JobNotFound, and ResultTimeout with where it stood last."""
        waiter = _Waiter(job_id, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        self._new.set()
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await waiter.answer
        except TimeoutError:
            raise ResultTimeout(job_id=job_id, timeout=timeout, state=waiter.standing) from waiter.trouble
        finally:
            self._waiters.discard(waiter)

    async def run(self) -> None:
        """Polls while anybody waits; ends only when it is cancelled."""
        try:
            while True:
                self._new.clear()
                if await self._sleep_until_due():
                    await self._poll([waiter for waiter in self._waiters if waiter.due <= time.monotonic()])
        finally:
            for waiter in self._waiters:
                waiter.fail(ConfigurationError("the client is closed; wait for results while it is open"))

    async def _sleep_until_due(self) -> bool:
        """Sleeps until the next waiter is due, or until a new one came, then False."""
        due = min((waiter.due for waiter in self._waiters), default=math.inf)
        seconds = due - time.monotonic()
        if seconds <= 0:
            return True
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._new.wait()
        except TimeoutError:
            return True
        return False

    async def _poll(self, waiters: list[_Waiter]) -> None:
        for start in range(0, len(waiters), MAX_ROWS):
            await self._ask(waiters[start : start + MAX_ROWS])

    async def _ask(self, waiters: list[_Waiter]) -> None:
        try:
            rows = await self._ledger.fetch(results(list({waiter.job_id for waiter in waiters})))
        except LoginRefused as error:
            for waiter in waiters:
                waiter.refuse(error)
        except LedgerUnavailable as error:
            for waiter in waiters:  # each has its own patience: its timeout
                waiter.standing, waiter.trouble = "in an unknown state", error
        except BrokerjobsError as error:
            for waiter in waiters:
                waiter.fail(error)
        else:
            outcomes = {row.job_id: row for row in rows}
            for waiter in waiters:
                waiter.hear(outcomes.get(waiter.job_id))
        now = time.monotonic()
        for waiter in waiters:
            waiter.wait_on(now)
