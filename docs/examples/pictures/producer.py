"""The producer: `python -m brokerjobs.examples.pictures.producer PICTURES SALES.CSV OUTPUT`.

It submits a job for each file of the folder PICTURES, waits for all results, then has the report made.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs import JobFailed, Submission
from brokerjobs.examples.pictures.contracts import Picture, Sales, app, make_thumbnail, rebuild_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.client import Client

_PATIENCE: Final = timedelta(minutes=5)


def thumbnail_key(picture: Path) -> str:
    """The idempotency key of a picture's job: submitting the folder again makes no second job."""
    return f"thumbnail:{picture.name}"


def report_key(source: Path) -> str:
    """The idempotency key of a report's job."""
    return f"report:{source.name}"


async def produce(pictures: Sequence[Path], source: Path, output: Path) -> None:
    """Submits all jobs and waits for their results; settings come from the environment."""
    async with app.client(submitted_by="pictures-producer") as client:
        await _thumbnails(client, pictures, output)
        job = await client.submit(
            rebuild_report,
            Sales(source=source, target=output / "report.csv"),
            key=report_key(source),
            tags={"from": source.parent.name},
        )
        report = await job.result(timeout=_PATIENCE)
        print(f"{report.file.name}: {report.rows} sales, best region {report.best_region}, month {report.best_month}")


async def _thumbnails(client: Client, pictures: Sequence[Path], output: Path) -> None:
    jobs = await client.submit_many(
        make_thumbnail,
        [
            Submission(
                Picture(source=picture, target=output / f"{picture.name}.webp"),
                key=thumbnail_key(picture),
                tags={"from": picture.parent.name},
            )
            for picture in pictures
        ],
    )
    for job in jobs:
        try:
            made = await job.result(timeout=_PATIENCE)
            print(f"{made.file.name}: {made.width} x {made.height}, {made.size} bytes")
        except JobFailed as error:
            print(error)


def main() -> None:
    """Runs the command line."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder, source, output = (Path(argument).resolve() for argument in sys.argv[1:])
    output.mkdir(exist_ok=True)
    asyncio.run(produce(sorted(folder.iterdir()), source, output))


if __name__ == "__main__":
    main()
