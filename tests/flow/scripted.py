"""An application for worker processes whose jobs do what their payload says: the tests' remote hands.

Started as `python -m tests.flow.scripted` with the settings of a worker in the environment, the namespace in
BROKERJOBS_TEST_NAMESPACE and a folder for marks in BROKERJOBS_TEST_MARKS.  BROKERJOBS_TEST_KILL_AT names a step before
which the process kills itself as SIGKILL does, without a hook in the product.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import resource
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brokerjobs import App, LedgerUnavailable, RetryPolicy, Snooze
from brokerjobs.effects.external import Effects
from brokerjobs.settings_loading import load_settings
from brokerjobs.wiring import run_worker
from brokerjobs.worker.completions import Completions
from brokerjobs.worker.runner import Runner
from brokerjobs.worker.settlement import Settlement
from tests.flow import pooled

if TYPE_CHECKING:
    from brokerjobs.context import JobContext, ProcessJobContext, SyncJobContext

MARKS = Path(os.environ.get("BROKERJOBS_TEST_MARKS", "."))
QUICK = RetryPolicy(attempts=3, first_delay=timedelta(milliseconds=10), max_delay=timedelta(milliseconds=50))

app = App(os.environ.get("BROKERJOBS_TEST_NAMESPACE", "scripted"))


async def follow(script: list[str], ctx: JobContext) -> str:
    """Does the steps of a script, and returns the attempt that did them."""
    for step in script:
        verb, _, argument = step.partition(":")
        if verb == "first":  # what follows is for the first attempt alone
            if ctx.attempt.number != 1:
                break
        else:
            await STEPS[verb](argument, ctx)
    return f"attempt {ctx.attempt.number}"


async def line(name: str, ctx: JobContext) -> None:
    """An effect that nothing fences."""
    with (MARKS / name).open("a") as file:
        file.write(f"{ctx.attempt.number}\n")


async def touch(name: str, _: JobContext) -> None:
    """Tells the test where the handler is."""
    (MARKS / name).touch()


async def wait(name: str, _: JobContext) -> None:
    """Waits for the test's leave; polling, since it comes from another process."""
    while not (MARKS / name).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def fenced(_: str, ctx: JobContext) -> None:
    """A plain INSERT, fenced."""
    await fenced_try(ctx)


async def fenced_slowly(name: str, ctx: JobContext) -> None:
    """A plain INSERT in a transaction that stays open until the test's leave."""
    async with ctx.transaction() as tx:
        await tx.execute(_INSERT, [ctx.job_id, ctx.attempt.fencing_number])
        await touch(name, ctx)
        await wait(f"{name}.go", ctx)
        tx.complete(f"attempt {ctx.attempt.number}")


async def fenced_stubbornly(_: str, ctx: JobContext) -> None:
    """A plain INSERT in the retry loop that so many applications have around their transactions."""
    for left in (2, 1, 0):
        try:
            await fenced_try(ctx)
        except LedgerUnavailable:
            if not left:
                raise
        else:
            return


async def fenced_try(ctx: JobContext) -> None:
    async with ctx.transaction() as tx:
        await tx.execute(_INSERT, [ctx.job_id, ctx.attempt.fencing_number])
        tx.complete(f"attempt {ctx.attempt.number}")


async def kill(_: str, __: JobContext) -> None:
    """The process is gone."""
    os.kill(os.getpid(), signal.SIGKILL)


async def crash(_: str, __: JobContext) -> None:
    """Reads where nothing is: a segmentation fault."""
    ctypes.string_at(0)


async def deaf(name: str, _: JobContext) -> None:
    """Goes on whatever it is told."""
    (MARKS / name).touch()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


async def devour(_: str, __: JobContext) -> None:
    """Asks for more memory than `ulimit -v` grants."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # noqa: ASYNC240
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, before[1]))
    try:
        bytearray(2**30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


async def hold(seconds: str, _: JobContext) -> None:
    """Holds the interpreter's lock (GIL), as one long regular expression does: a PyDLL call does not release it."""
    ctypes.PyDLL(None).usleep(int(float(seconds) * 1e6))


async def fail(message: str, _: JobContext) -> None:
    """An unclassified exception."""
    raise RuntimeError(message)


async def snooze(_: str, __: JobContext) -> None:
    """Not for an hour."""
    raise Snooze(datetime.now(UTC) + timedelta(hours=1))


async def effect(name: str, ctx: JobContext) -> None:
    """An effect that may not be repeated, in a service without idempotency keys."""
    await ctx.effect(name, lambda key: call(name, key), returns=str, repeatable=False, time_limit=_CALL)


async def keyed(name: str, ctx: JobContext) -> None:
    """The same in a service with idempotency keys."""
    await ctx.effect(name, lambda key: call(name, key), returns=str, repeatable=True, time_limit=_CALL)


async def slow_effect(name: str, ctx: JobContext) -> None:
    """An effect that may not be repeated, whose call blocks until the test's leave."""

    def slowly(key: str) -> str:
        (MARKS / f"{name}.began").touch()
        while not (MARKS / f"{name}.go").exists():
            time.sleep(0.01)
        return write(name, key)

    await ctx.effect(name, slowly, returns=str, repeatable=False, time_limit=timedelta(seconds=1))


async def call(name: str, key: str) -> str:
    """The service outside."""
    return write(name, key)


def write(name: str, key: str) -> str:
    """It writes down each call, with its key."""
    with (MARKS / name).open("a") as file:
        file.write(f"{key}\n")
    return f"receipt of {key}"


_CALL: Final = timedelta(milliseconds=500)
_INSERT: Final = "insert into effects values (%s, %s)"
STEPS: Final = {
    "line": line,
    "touch": touch,
    "wait": wait,
    "fenced": fenced,
    "effect": effect,
    "keyed": keyed,
    "slow_effect": slow_effect,
    "fenced_slowly": fenced_slowly,
    "fenced_stubbornly": fenced_stubbornly,
    "kill": kill,
    "crash": crash,
    "deaf": deaf,
    "devour": devour,
    "hold": hold,
    "raise": fail,
    "snooze": snooze,
}


@app.job("repeatable", repeatable=True, lease=timedelta(seconds=1), retry=QUICK)
async def repeatable(payload: list[str], ctx: JobContext) -> str:
    """A job that may be done again blindly."""
    return await follow(payload, ctx)


@app.job("once", repeatable=False, lease=timedelta(seconds=1), retry=QUICK)
async def once(payload: list[str], ctx: JobContext) -> str:
    """A job that may not."""
    return await follow(payload, ctx)


@app.job(
    "threaded",
    repeatable=True,
    lease=timedelta(seconds=1),
    time_limit=timedelta(seconds=2),
    retry=RetryPolicy(attempts=1),
)
def in_thread(payload: list[str], ctx: SyncJobContext) -> str:
    """A job in a thread."""
    return pooled.follow(payload, ctx)


@app.job("pooled", repeatable=True, lease=timedelta(seconds=1), retry=QUICK, pool="process")
def in_process(payload: list[str], ctx: ProcessJobContext) -> str:
    """A job in a process of its own."""
    return pooled.follow(payload, ctx)


@app.job(
    "pooled.once",
    repeatable=False,
    lease=timedelta(seconds=1),
    time_limit=timedelta(seconds=2),
    retry=QUICK,
    pool="process",
)
def in_process_once(payload: list[str], ctx: ProcessJobContext) -> str:
    """One that may not be done again blindly, nor take long."""
    return pooled.follow(payload, ctx)


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_before(step: str) -> None:
    """Replaces a step of the worker, in this process, by its sudden death."""
    places: dict[str, tuple[type[Any], str]] = {
        "run": (Runner, "run"),
        "start": (Completions, "start"),
        "intent": (Completions, "intent"),
        "call": (Effects, "permitted"),
        "outcome": (Completions, "outcome"),
        "report": (Completions, "completed"),
        "ack": (Settlement, "ack"),
    }
    owner, name = places[step]
    setattr(owner, name, _die)


def main() -> int:
    """Runs a worker as the settings say."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    if step := os.environ.get("BROKERJOBS_TEST_KILL_AT"):
        _kill_before(step)
    return run_worker(app, load_settings())


if __name__ == "__main__":
    sys.exit(main())
