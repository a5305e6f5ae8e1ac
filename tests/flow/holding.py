"""An application whose handlers hold what the ledger gave them, and a witness outside: lock files.

Started as `python -m tests.flow.holding` with the settings of a worker in the environment, the namespace in
BROKERJOBS_TEST_NAMESPACE and a folder for lock files in BROKERJOBS_TEST_MARKS.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import random
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs import App, RetryPolicy, needs
from brokerjobs.settings_loading import load_settings
from brokerjobs.wiring import run_worker
from tests.processes import runs

if TYPE_CHECKING:
    from collections.abc import Generator

    from brokerjobs.context import JobContext
    from brokerjobs.job_type import JobType

LIMIT: Final = 3
# Kills cost an attempt each, and a lease until the next one.
OFTEN: Final = RetryPolicy(attempts=20, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))
LEASE: Final = timedelta(seconds=5)
_MARKS: Final = Path(os.environ.get("BROKERJOBS_TEST_MARKS", "."))


def application(namespace: str) -> tuple[App, JobType[dict[str, str], None], JobType[dict[str, str], None]]:
    """The application with its two job types: one holds an account, the other one of a few places."""
    app = App(namespace)

    @app.job("charge", repeatable=True, lease=LEASE, retry=OFTEN, needs=[needs.exclusive("account:{account}")])
    async def charge(payload: dict[str, str], ctx: JobContext) -> None:
        with witness([_MARKS / f"account-{payload['account']}"], ctx):
            await asyncio.sleep(random.uniform(0, 0.01))

    @app.job("send", repeatable=True, lease=LEASE, retry=OFTEN, needs=[needs.limit("smtp", LIMIT)])
    async def send(payload: dict[str, str], ctx: JobContext) -> None:
        with witness([_MARKS / f"smtp-{place}" for place in range(LIMIT)], ctx):
            await asyncio.sleep(random.uniform(0, 0.01))

    return app, charge, send


@contextlib.contextmanager
def witness(places: list[Path], ctx: JobContext) -> Generator[None]:
    """Takes the first of these lock files that is free; that there is none is what the witness tells of.

    The lock of a process that was killed is free once that process is dead, and not before.
    """
    with places[0].with_suffix(".guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        mine = next((place for place in places if _taken(place)), None)
    if mine is None:
        with (_MARKS / "told").open("a") as file:
            held = [place.read_text() for place in places if place.exists()]
            file.write(f"{ctx.job_id} attempt {ctx.attempt.number} found {places[0].name} held: {held}\n")
        yield
        return
    try:
        yield
    finally:
        mine.unlink()


def _taken(place: Path) -> bool:
    """Makes the lock file, as O_EXCL does, with this process in it, whole at once: a kill leaves no empty one."""
    own = _MARKS / f".{os.getpid()}"
    own.write_text(str(os.getpid()))
    while True:
        try:
            os.link(own, place)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # its holder has just let it go
                if runs(int(place.read_text())):
                    return False
                place.unlink()
        else:
            return True


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    _app, *_ = application(os.environ["BROKERJOBS_TEST_NAMESPACE"])
    sys.exit(run_worker(_app, load_settings()))
