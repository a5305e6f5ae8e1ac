"""An application for worker processes whose jobs stage artifacts as their payload says.

Started as `python -m tests.flow.uploading` with the settings of a worker in the environment, as `tests.flow.scripted`;
BROKERJOBS_TEST_KILL_AT names a step of an upload before which the process kills itself as SIGKILL does.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import resource
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from uuid_utils.compat import uuid7

from brokerjobs import App, Artifact, RetryPolicy
from brokerjobs.settings_loading import load_settings
from brokerjobs.wiring import run_worker
from brokerjobs.worker.completions import Completions
from brokerjobs.worker.settlement import Settlement
from brokerjobs.worker.uploads import AttemptUploads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from brokerjobs import JobContext, ProcessJobContext, SyncJobContext

MARKS: Final = Path(os.environ.get("BROKERJOBS_TEST_MARKS", "."))
QUICK: Final = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))
LEASE: Final = timedelta(seconds=1)
PIECE: Final = b"0123456789abcdef" * 4096

app = App(os.environ.get("BROKERJOBS_TEST_NAMESPACE", "uploading"))


class Outcome(BaseModel):
    """What a job answers: the artifacts that it staged, by their names."""

    attempt: int
    staged: dict[str, Artifact] = {}
    seen: list[str] = []


def follow(script: list[str], ctx: SyncJobContext | ProcessJobContext) -> Outcome:
    """Does the steps of a script."""
    outcome = Outcome(attempt=ctx.attempt.number)
    for step in script:
        verb, _, name = step.partition(":")
        if verb == "first":  # what follows is for the first attempt alone
            if ctx.attempt.number != 1:
                break
        elif verb in SOURCES:
            outcome.staged[name] = ctx.artifacts.put(name, SOURCES[verb](name, ctx.attempt.number))
        else:
            STEPS[verb](name, outcome, ctx)
    return outcome


async def follow_async(script: list[str], ctx: JobContext) -> Outcome:
    """The same in an async handler; uploads are awaited, the other steps block nothing for long."""
    outcome = Outcome(attempt=ctx.attempt.number)
    for step in script:
        verb, _, name = step.partition(":")
        if verb == "first":
            if ctx.attempt.number != 1:
                break
        elif verb in SOURCES:
            outcome.staged[name] = await ctx.artifacts.put(name, SOURCES[verb](name, ctx.attempt.number))
        elif verb == "wait":
            while not (MARKS / name).exists():  # noqa: ASYNC110  # it comes from another process
                await asyncio.sleep(0.01)
        else:
            STEPS[verb](name, outcome, ctx)
    return outcome


def slowly(name: str, number: int) -> Generator[bytes]:
    """A source that gives a piece and then waits for the test's leave."""
    yield PIECE
    (MARKS / f"{name}.began").write_text(str(os.getpid()))
    while not (MARKS / f"{name}.go").exists():
        time.sleep(0.01)
        yield b""  # whoever reads it can look whether it is to stop
    yield f"attempt {number}".encode()


def endless(name: str, _: int) -> Generator[bytes]:
    """A source that never ends by itself."""
    (MARKS / f"{name}.began").write_text(str(os.getpid()))
    while True:
        yield PIECE
        time.sleep(0.01)


def long(_: str, number: int) -> bytes:
    """More than the room that `full` leaves."""
    return PIECE + f"attempt {number}".encode()


def text(_: str, number: int) -> bytes:
    """A few bytes."""
    return f"attempt {number}".encode()


def full(_: str, __: Outcome, ctx: Any) -> None:
    """Leaves no room for files in the first attempt: with the limit of a file's size, which the kernel enforces."""
    room = 100 if ctx.attempt.number == 1 else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def fork(name: str, _: Outcome, ctx: Any) -> None:
    """What a fork of the handler may not do."""
    if os.fork() == 0:
        try:
            ctx.artifacts.put(name, b"from the fork")
        except BaseException as error:  # noqa: BLE001
            (MARKS / name).write_text(f"{type(error).__name__}: {error}")
        os._exit(0)


def many(count: str, _: Outcome, ctx: Any) -> None:
    """Lets so many threads stage something at once."""
    with ThreadPoolExecutor(int(count)) as pool:
        for done in [pool.submit(ctx.artifacts.put, str(n), str(n).encode()) for n in range(int(count))]:
            done.result()


def busy(seconds: str, _: Outcome, ctx: Any) -> None:
    """Stages one thing after the other for so long, and looks after each whether it may go on."""
    end, number = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        number += 1
        ctx.artifacts.put(str(number), b"x")
        ctx.check()


def aside(name: str, _: Outcome, ctx: Any) -> None:
    """Lets a thread of its own stage something, and waits until that has begun."""

    def run() -> None:
        try:
            ctx.artifacts.put(name, slowly(name, 0))
        except BaseException as error:  # noqa: BLE001
            (MARKS / f"{name}.ended").write_text(f"{type(error).__name__}: {error}")
        else:
            (MARKS / f"{name}.ended").write_text("staged")

    threading.Thread(target=run, daemon=True).start()
    wait(f"{name}.began")


def wait(name: str, *_: object) -> None:
    """Waits for the test's leave, deaf to everything."""
    while not (MARKS / name).exists():
        time.sleep(0.01)


def invent(name: str, outcome: Outcome, _: Any) -> None:
    """Names an artifact that nobody has staged."""
    outcome.staged[name] = Artifact(id=uuid7(), name=name, size=1, sha256="0" * 64)


def look(_: str, outcome: Outcome, __: Any) -> None:
    """Tells whether this process has imported obstore, and how it was started."""
    outcome.seen += [name for name in sys.modules if name == "obstore"]
    outcome.seen += Path("/proc/self/cmdline").read_text().split("\0")


SOURCES: Final[dict[str, Callable[[str, int], Any]]] = {"put": text, "long": long, "slow": slowly, "endless": endless}
STEPS: Final[dict[str, Callable[[str, Outcome, Any], None]]] = {
    "full": full, "wait": wait, "fork": fork, "aside": aside, "many": many, "busy": busy, "invent": invent,
    "look": look,
}  # fmt: skip


@app.job("staged", repeatable=True, lease=LEASE, retry=QUICK)
async def staged(payload: list[str], ctx: JobContext) -> Outcome:
    """An async job that may be done again blindly."""
    return await follow_async(payload, ctx)


@app.job("staged.once", repeatable=False, lease=LEASE, retry=QUICK)
async def staged_once(payload: list[str], ctx: JobContext) -> Outcome:
    """One that may not."""
    return await follow_async(payload, ctx)


@app.job("staged.thread", repeatable=True, lease=LEASE, retry=QUICK)
def staged_in_thread(payload: list[str], ctx: SyncJobContext) -> Outcome:
    """A job in a thread."""
    return follow(payload, ctx)


@app.job("staged.brief", repeatable=True, lease=LEASE, time_limit=timedelta(seconds=2), retry=QUICK)
def staged_soon(payload: list[str], ctx: SyncJobContext) -> Outcome:
    """One that must not take long."""
    return follow(payload, ctx)


@app.job("staged.process", repeatable=True, lease=LEASE, retry=QUICK, pool="process")
def staged_in_process(payload: list[str], ctx: ProcessJobContext) -> Outcome:
    """A job in a process of its own."""
    return follow(payload, ctx)


@app.job("staged.process.once", repeatable=False, lease=LEASE, retry=QUICK, pool="process")
def staged_once_in_process(payload: list[str], ctx: ProcessJobContext) -> Outcome:
    """One that may not be done again blindly."""
    return follow(payload, ctx)


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_before(step: str) -> None:
    """Replaces a step of the worker, in this process, by its sudden death."""
    places: dict[str, tuple[type[Any], str]] = {
        "stage": (AttemptUploads, "stage"),
        "staged": (AttemptUploads, "_staged"),
        "ready": (AttemptUploads, "ready"),  # the object is whole, and the ledger does not know it
        "recorded": (AttemptUploads, "_said"),  # and knows it, and its handler does not
        "report": (Completions, "completed"),
        "ack": (Settlement, "ack"),
    }
    owner, name = places[step]
    setattr(owner, name, _die)


if os.environ.get("BROKERJOBS_TEST_WITHOUT_OBSTORE"):  # as if the extra were not installed, in children as well
    vars(sys)["modules"]["obstore"] = None
if os.environ.get("BROKERJOBS_TEST_IMPATIENT"):  # a store that is away is asked once, instead of for twenty seconds
    vars(importlib.import_module("brokerjobs.artifacts.remote"))["_RETRIES"].update(max_retries=0)


def main() -> int:
    """Runs a worker as the settings say."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    if step := os.environ.get("BROKERJOBS_TEST_KILL_AT"):
        _kill_before(step)
    return run_worker(app, load_settings())


if __name__ == "__main__":
    sys.exit(main())
