"""Places where `brokerjobs demo` may hold a handler, to break its process just there; an application has none.

A job is held if a file with the name of its key and the place is in the folder that EXAMPLE_CHECKPOINTS names, until
that file is gone.  Only first attempts are held: the next one shall get on.
"""

from __future__ import annotations

import asyncio
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerjobs import JobContext, SyncJobContext

VARIABLE: Final = "EXAMPLE_CHECKPOINTS"
_POLL_SECONDS: Final = 0.02


class Where(StrEnum):
    """The places."""

    BEFORE_COMMIT = "before-commit"  # the effects are under way, nothing is committed
    AFTER_COMMIT = "after-commit"  # row and result are committed, the acknowledgement is not sent


class Checkpoint:
    """One place of one job, as the handler and the demo see it."""

    def __init__(self, folder: Path, key: str, where: Where) -> None:
        name = f"{key}.{where}".replace("/", "_")
        self._held = folder / f"{name}.held"
        self._reached = folder / f"{name}.reached"

    def hold(self) -> None:
        """Asks that a handler waits here."""
        self._held.touch()

    def release(self) -> None:
        """Lets it go on."""
        self._held.unlink(missing_ok=True)

    @property
    def is_held(self) -> bool:
        """Whether a handler has to wait."""
        return self._held.exists()

    def reach(self) -> None:
        """Says, for a handler, that its process is here."""
        unfinished = self._reached.with_suffix(".part")
        unfinished.write_text(str(os.getpid()))
        unfinished.replace(self._reached)

    def reached_by(self) -> int | None:
        """The id of the process that is here, None before it is."""
        return int(self._reached.read_text()) if self._reached.exists() else None


def checkpoint(where: Where, ctx: SyncJobContext) -> None:
    """Waits here, in a handler's thread, if the demo asked for that."""
    if here := _asked(where, ctx):
        while here.is_held:
            time.sleep(_POLL_SECONDS)


async def async_checkpoint(where: Where, ctx: JobContext) -> None:
    """As `checkpoint`, in an async handler."""
    if here := _asked(where, ctx):
        while here.is_held:  # noqa: ASYNC110  # the demo is another process, and shares files with this one
            await asyncio.sleep(_POLL_SECONDS)


def _asked(where: Where, ctx: JobContext | SyncJobContext) -> Checkpoint | None:
    folder = os.environ.get(VARIABLE)
    if folder is None or ctx.key is None or ctx.attempt.number > 1:
        return None
    here = Checkpoint(Path(folder), ctx.key, where)
    if not here.is_held:
        return None
    here.reach()
    return here
