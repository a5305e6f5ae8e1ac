"""Resident memory of a worker that holds 1 000 prefetched deliveries, from its first jobs to its last."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.stage import Shape

if TYPE_CHECKING:
    from tests.bench.stage import Stage

SHAPE = Shape("memory", 100, 1000)
_EVERY_SECONDS = 0.5
_WARM_UP = 0.1  # part of the run after which memory counts as grown up


@dataclass(frozen=True)
class Memory:
    """Mebibytes; `drift` is how far any later reading is from the one after the warm-up, as a part of it."""

    warm_mb: float
    most_mb: float
    drift: float
    jobs: int


async def measured(stage: Stage, jobs: int) -> Memory:
    """Drains `jobs`, and reads the process's resident memory twice a second."""
    namespace = await stage.namespace()
    ids = await stage.fill(namespace, jobs)
    readings: list[float] = []
    with stage.worker(namespace, SHAPE) as worker:
        reading = asyncio.create_task(_read(worker.pid, readings))
        await stage.done(ids, worker)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    warm, *rest = readings[int(len(readings) * _WARM_UP) :]
    drift = max(abs(one - warm) for one in rest) / warm
    return Memory(round(warm, 1), round(max(readings), 1), round(drift, 3), jobs)


async def _read(pid: int, readings: list[float]) -> None:
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        readings.append(int(kilobytes) / 1024)
        await asyncio.sleep(_EVERY_SECONDS)
