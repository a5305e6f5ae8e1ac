"""The consumer: `python -m brokerjobs.examples.reports.consumer 2026 FOLDER`.

It has the report of a year made, takes it over into FOLDER, and acknowledges the copy that it has there. Interrupted
anywhere it may be run again: the key makes it one job, fetching again does no harm, nor does acknowledging again.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.examples.reports.contracts import Period, app, make_report

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs import Client

_PATIENCE: Final = timedelta(minutes=5)


async def consume(year: int, folder: Path) -> Path:
    """Takes the report of a year over; answers the copy. Settings come from the environment."""
    async with app.client(submitted_by="reports-archive") as client:
        job = await client.submit(make_report, Period(year=year, days=365), key=f"report-{year}")
        report = await job.result(timeout=_PATIENCE)
        print(f"{report.rows} sales, {report.cents / 100:.2f} in all, {report.file.size} bytes")
        copy = folder / f"{year}.csv"  # a name of our own: the artifact's is whatever its handler said
        await take_over(client, report.file.id, copy)
        return copy


async def take_over(client: Client, artifact: UUID, copy: Path) -> None:
    """Fetches, and acknowledges what is really there."""
    await client.artifacts.fetch(artifact, to=copy, overwrite=True)  # whole and verified, or not at all
    # This is the moment to bring it where it is safe: another disk, an archive. The hash is that of the copy there.
    sha256 = await asyncio.to_thread(sha256_of, copy)
    said = await client.artifacts.acknowledge(artifact, sha256=sha256, copied_to=f"{socket.gethostname()}:{copy}")
    print(f"{said.copied_to}: acknowledged by {said.by}")


def sha256_of(file: Path) -> str:
    """Of the bytes that are on the disk."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> None:
    """Runs the command line."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(consume(int(sys.argv[1]), Path(sys.argv[2]).resolve()))


if __name__ == "__main__":
    main()
