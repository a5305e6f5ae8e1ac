"""How far a transfer is, on a terminal: bytes, speed and what is left; elsewhere nothing is said of it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokerjobs.cli.output import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@contextmanager
def transfer_bar(what: str, total: int) -> Generator[Callable[[int], None] | None]:
    """What is to be told the bytes so far, None where nobody looks; the bar goes away at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  # slow: rich
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escaped(what), total=total)
        yield lambda size: progress.update(task, completed=size)
