"""What the payload of a sync job may ask for, in a process or a thread: the steps of `scripted`, without await."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry import trace

from brokerjobs import Snooze, StopRequested, TemporaryFailure

if TYPE_CHECKING:
    from brokerjobs.context import ProcessJobContext

MARKS = Path(os.environ.get("BROKERJOBS_TEST_MARKS", "."))


def follow(script: list[str], ctx: ProcessJobContext) -> str:
    """Does the steps of a script, and returns the attempt that did them."""
    for step in script:
        verb, _, argument = step.partition(":")
        if verb == "first":  # what follows is for the first attempt alone
            if ctx.attempt.number != 1:
                break
        else:
            STEPS[verb](argument, ctx)
    return f"attempt {ctx.attempt.number}"


def line(name: str, ctx: ProcessJobContext) -> None:
    """An effect that nothing fences."""
    with (MARKS / name).open("a") as file:
        file.write(f"{ctx.attempt.number}\n")


def pid(name: str, _: ProcessJobContext) -> None:
    """Tells the test which process this is."""
    unfinished = MARKS / f"{name}.part"
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(MARKS / name)


def span(name: str, _: ProcessJobContext) -> None:
    """What a user's code does that is traced."""
    trace.get_tracer("users").start_span(name).end()


def touch(name: str, _: ProcessJobContext) -> None:
    """Tells the test where the handler is."""
    (MARKS / name).touch()


def wait(name: str, _: ProcessJobContext) -> None:
    """Waits for the test's leave, deaf to everything."""
    while not (MARKS / name).exists():
        time.sleep(0.01)


def look(name: str, ctx: ProcessJobContext) -> None:
    """Looks whether it is to stop until the test's leave; leaves the reason behind."""
    while not (MARKS / name).exists():
        try:
            ctx.check()
        except StopRequested as error:
            with (MARKS / f"{name}.told").open("a") as file:
                file.write(f"{error.reason}\n")
            raise
        time.sleep(0.01)


def receive(name: str, _: ProcessJobContext) -> None:
    """Blocks in the system, where nothing but a signal that kills reaches it, until the test sends something."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(MARKS / name))
        line.recv(1)


def hold(seconds: str, _: ProcessJobContext) -> None:
    """Holds the interpreter's lock (GIL), as one long regular expression does."""
    ctypes.PyDLL(None).usleep(int(float(seconds) * 1e6))


def kill(name: str, _: ProcessJobContext) -> None:
    """Ends its own process by a signal."""
    os.kill(os.getpid(), signal.Signals[name])


def crash(_: str, __: ProcessJobContext) -> None:
    """Reads where nothing is: a segmentation fault."""
    ctypes.string_at(0)


def leave(code: str, _: ProcessJobContext) -> None:
    """Ends its process without a word."""
    os._exit(int(code))


def fork(_: str, __: ProcessJobContext) -> None:
    """Forks, and lets the copy go on as if it were this handler."""
    if os.fork() == 0:
        message = "from the fork"
        raise RuntimeError(message)


def babble(text: str, _: ProcessJobContext) -> None:
    """Writes to every socket that this process has; % stands for NUL."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
            line.sendall(text.replace("%", "\0").encode())


def devour(_: str, __: ProcessJobContext) -> None:
    """Takes more memory than there is."""
    limit = 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    bytearray(2 * limit)


def fail(message: str, _: ProcessJobContext) -> None:
    """An unclassified exception."""
    raise RuntimeError(message)


def later(message: str, _: ProcessJobContext) -> None:
    """A classified one."""
    raise TemporaryFailure(message, retry_after=timedelta(hours=2))


def snooze(_: str, __: ProcessJobContext) -> None:
    """Not for an hour."""
    raise Snooze(datetime.now(UTC) + timedelta(hours=1))


STEPS: Final = {
    "line": line,
    "span": span,
    "pid": pid,
    "touch": touch,
    "wait": wait,
    "look": look,
    "receive": receive,
    "hold": hold,
    "kill": kill,
    "crash": crash,
    "leave": leave,
    "fork": fork,
    "babble": babble,
    "devour": devour,
    "raise": fail,
    "later": later,
    "snooze": snooze,
}
