"""An application that both releases run, and its producer: `python till.py COUNT` submits and prints the jobs' ids.

TILL_NAMESPACE names it; jobs of the types `hold` and `hold.briefly` last until the file that they name is there, the
second with a lease that is soon over when its worker is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from brokerjobs import App, JobContext, RetryPolicy, Submission

app = App(os.environ["TILL_NAMESPACE"])
QUICK = RetryPolicy(first_delay=timedelta(milliseconds=50), max_delay=timedelta(milliseconds=100))


@app.job("add", repeatable=True)
async def add(number: int) -> int:
    return number + 1


@app.job("book", repeatable=False)
async def book(number: int, ctx: JobContext) -> int:
    async with ctx.transaction() as tx:
        tx.complete(number)
    return number


@app.job("stumble", repeatable=True, retry=QUICK)
async def stumble(number: int, ctx: JobContext) -> int:
    if ctx.attempt.number == 1:
        message = f"stumbled over {number}"
        raise ValueError(message)
    return number


@app.job("hold", repeatable=True)
async def hold(name: str) -> str:
    return await until_marked(Path(name))


@app.job("hold.briefly", repeatable=True, lease=timedelta(seconds=1), retry=QUICK)
async def hold_briefly(name: str) -> str:
    return await until_marked(Path(name))


async def until_marked(mark: Path) -> str:
    mark.with_name(f"{mark.name}.begun").touch()
    while not mark.exists():  # noqa: ASYNC110, ASYNC240  # another process makes it
        await asyncio.sleep(0.02)
    return mark.name


async def produce(count: int) -> None:
    async with app.client(submitted_by="till") as client:
        handles = [
            *await client.submit_many(add, [Submission(number, key=f"add-{number}") for number in range(count)]),
            *[await client.submit(book, number) for number in range(count)],
            *[await client.submit(stumble, number) for number in range(count)],
            await client.submit(add, 7, not_before=timedelta(milliseconds=300)),
        ]
        for handle in handles:
            print(handle.id)  # noqa: T201  # its answer


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[1])))
