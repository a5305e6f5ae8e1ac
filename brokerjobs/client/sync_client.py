"""The client of producers that do not await: submits jobs and asks about them, from any number of threads.

Its callers use the ledger on their own threads, over a few connections that they share.  Doorbells are rung and
results polled for behind them, by one thread that is started when it is first needed.  All of that belongs to one
process: after a fork the child opens its own and leaves what it has inherited alone.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from brokerjobs.artifacts.store import lazily
from brokerjobs.client import questions
from brokerjobs.client.behind import connect_options
from brokerjobs.client.behind_thread import BehindThread
from brokerjobs.client.submissions import Made
from brokerjobs.client.sync_artifacts import SyncArtifacts
from brokerjobs.client.sync_handle import SyncJobHandle
from brokerjobs.client.sync_submit import SyncSubmitter
from brokerjobs.errors import ConfigurationError
from brokerjobs.job_type import Submission
from brokerjobs.ledger.asking import Asking, ask_sync
from brokerjobs.ledger.shared import CLOSED, SharedConnections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType
    from uuid import UUID

    from brokerjobs.broker.protocol import Outgoing
    from brokerjobs.client.options import ClientOptions
    from brokerjobs.job_type import JobType, Priority
    from brokerjobs.ledger.inquiries import Outcome
    from brokerjobs.rules.needs import Need

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

# With the one of the thread behind them as many as a client that awaits has, and one more.
_CONNECTIONS: Final = 4

log = logging.getLogger("brokerjobs.client")


class SyncClient:
    """Submits jobs in the name of `submitted_by`; made by `App.sync_client`, open from then on until it is closed."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._closed = False
        # By process, so that a fork finds nothing of its own and cannot meet a lock that somebody held at that moment.
        self._opened: dict[int, _Opened] = {}

    def __repr__(self) -> str:
        return f"<SyncClient of {self._options.submitted_by!r}>"

    def __enter__(self) -> Self:
        self._closed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def submit(  # noqa: PLR0913  # what a submission may say, at the public door
        self,
        job_type: JobType[P, R],
        payload: P,
        *,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        not_before: datetime | timedelta | None = None,
        deadline: datetime | timedelta | None = None,
        priority: Priority = "normal",
        needs: Sequence[Need] = (),
        within: object = None,
    ) -> SyncJobHandle[R]:
        """Submits one job, and returns when the ledger has committed it; its doorbell is rung behind that.

        `within` is the caller's open transaction (a psycopg or psycopg2 connection, a SQLAlchemy Session or Connection,
        or Django's `connection`): the job then exists when the caller commits.  Raises as `Client.submit`.
        """
        submission = Submission(
            payload,
            key=key,
            tags=tags or {},
            not_before=not_before,
            deadline=deadline,
            priority=priority,
            needs=needs,
        )
        submitter = self._here().submitter
        if within is None:
            made = submitter.one(job_type, submission)
        else:
            made = submitter.one_within(within, job_type, submission)
        return SyncJobHandle(self._here, job_type, made)

    def submit_many(
        self, job_type: JobType[P, R], submissions: Sequence[Submission[P]], *, within: object = None
    ) -> list[SyncJobHandle[R]]:
        """Submits all in one transaction, or none if one is refused; the handles are in the order given.

        Raises as `submit`, with a note that says which submission was refused.
        """
        submitter = self._here().submitter
        if not submissions:
            return []
        if within is None:
            made = submitter.many(job_type, submissions)
        else:
            made = submitter.many_within(within, job_type, submissions)
        return [SyncJobHandle(self._here, job_type, one) for one in made]

    def find(self, job_type: JobType[Any, R], *, key: str) -> SyncJobHandle[R] | None:
        """The job that was submitted under `key`, None if there is none. Raises LedgerUnavailable."""
        found = self._here().ask(questions.find(job_type, key))
        return None if found is None else self.handle(job_type, found)

    def handle(self, job_type: JobType[Any, R], job_id: UUID) -> SyncJobHandle[R]:
        """A handle of a job whose id is known; asks nothing."""
        return SyncJobHandle(self._here, job_type, Made(job_id))

    @property
    def artifacts(self) -> SyncArtifacts:
        """What jobs have handed over: `list`, `get`, `fetch`, `acknowledge`."""
        return SyncArtifacts(self._here)

    def close(self) -> None:
        """Waits a little for pending doorbells, leaves the rest to the relay, and gives all connections back.

        Whoever still waits for a result is told. Without it the end of the process does the same.
        """
        self._closed = True
        if opened := self._opened.pop(os.getpid(), None):
            opened.close()

    def _here(self) -> _Opened:
        if self._closed:
            raise ConfigurationError(CLOSED)
        opened = self._opened.get(os.getpid())
        if opened is None:
            opened = self._opened.setdefault(os.getpid(), _Opened(self._options))
            atexit.register(opened.close)
        return opened


class _Opened:
    """What an open client works with in one process."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._closed = False
        self._thread: BehindThread | None = None
        self.patience_seconds = patience_seconds = options.patience.total_seconds()
        self.store = lazily(options.artifacts)
        self._ledger = SharedConnections(
            connect_options(options),
            limit=_CONNECTIONS,
            patience_seconds=patience_seconds,
            answer_seconds=options.answer.total_seconds(),
        )
        self.submitted_by = options.submitted_by
        self.submitter = SyncSubmitter(
            self._ledger, self._announce, submitted_by=options.submitted_by, patience_seconds=patience_seconds
        )

    def ask(self, asking: Asking[T], /) -> T:
        """Asks the ledger."""
        return ask_sync(asking, self._ledger.fetch)

    def outcome(self, job_id: UUID, timeout: timedelta, /) -> Outcome:
        """Waits for what ends a job."""
        return self._behind().outcome(job_id, timeout)

    def announced(self, doorbell: Outgoing, /) -> bool:
        """Rings a doorbell; False if the relay has to."""
        thread = self._behind_or_none()
        return thread is not None and thread.announced(doorbell)

    def close(self) -> None:
        """Ends the thread and closes the connections."""
        if self._pid != os.getpid():
            return  # inherited by a fork, which has no copy of the thread and may not touch its parent's connections
        atexit.unregister(self.close)
        with self._guard:
            self._closed = True
            thread = self._thread
        try:
            if thread is not None:
                thread.close()
        finally:
            self._ledger.close()

    def _announce(self, doorbells: Sequence[Outgoing]) -> None:
        if thread := self._behind_or_none():
            thread.announce(doorbells)

    def _behind_or_none(self) -> BehindThread | None:
        """As `_behind`; None if there can be none: what has been committed does not fail for that, the relay rings."""
        try:
            return self._behind()
        except ConfigurationError:  # closed meanwhile
            return None
        except (OSError, RuntimeError) as error:  # no more files, or no more threads
            log.warning("doorbells are left to the relay, as no thread can be started that rings them: %s", error)
            return None

    def _behind(self) -> BehindThread:
        """The thread behind the callers; another one if it has died."""
        with self._guard:
            if self._closed:
                raise ConfigurationError(CLOSED)
            if self._thread is None or not self._thread.alive:
                self._thread = BehindThread(self._options)
            return self._thread
