"""An append-only file into which every run of a handler writes a line, and which nothing protects.

It stands for what a job does outside the ledger's database: an e-mail, a message, a call.  A job that runs twice has
two lines here, and one row in the database.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerjobs import JobContext, SyncJobContext

VARIABLE: Final = "EXAMPLE_JOURNAL"
"""The environment variable that names the file; without it nothing is written."""


def write_line(what: str, ctx: JobContext | SyncJobContext) -> None:
    """Appends one line: job id, attempt number, process id, and what is done."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    line = f"{ctx.job_id} attempt {ctx.attempt.number} pid {os.getpid()} {what}\n"
    # One write in append mode, so that lines of several processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
