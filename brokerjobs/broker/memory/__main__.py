"""`python -m brokerjobs.broker.memory SOCKET`: serves a broker in memory until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from brokerjobs.broker.memory.server import serving
from brokerjobs.broker.memory.store import MemoryBroker
from brokerjobs.errors import ConfigurationError


async def _serve(path: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(MemoryBroker(), path) as url:
        sys.stderr.write(f"serving {url} for demo, tests and simulation: messages are in this process's memory alone\n")
        await stop.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m brokerjobs.broker.memory SOCKET")
    try:
        asyncio.run(_serve(Path(sys.argv[1])))
    except ConfigurationError as error:
        sys.exit(f"error: {error}")
