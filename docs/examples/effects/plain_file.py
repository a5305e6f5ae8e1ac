"""A plain file: whoever looks sees the old contents or the new, whole, and a superseded attempt writes the same bytes.

A file cannot compare numbers, so nothing fences it: it is safe because the contents depend on the job alone, and
because the rename is one step.

    brokerjobs setup brokerjobs.examples.effects.plain_file:app
    brokerjobs worker brokerjobs.examples.effects.plain_file:app
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from brokerjobs import App

if TYPE_CHECKING:
    from brokerjobs import SyncJobContext

app = App("exports")


class Export(BaseModel):
    """Lines that go into a file."""

    file: Path
    lines: list[str]


@app.job("export.write", repeatable=True)
def write(export: Export, ctx: SyncJobContext) -> int:
    """Writes the file; answers its size in bytes."""
    data = "".join(f"{line}\n" for line in export.lines).encode()
    write_whole(export.file, data, unfinished=f".{ctx.job_id}.{ctx.attempt.number}.part")
    return len(data)


def write_whole(target: Path, data: bytes, *, unfinished: str) -> None:
    """Puts `data` into `target` in one step: a temporary name of the attempt's own, fsync, rename, fsync of the folder.

    After a crash `target` is as it was before, or whole; an unfinished file is left, under a name that nobody reads.
    """
    part = target.with_name(target.name + unfinished)
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # the contents are on the disk before the name points to them
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # and the name itself
    finally:
        os.close(folder)
