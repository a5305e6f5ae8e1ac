"""One tick of a sweeper in a process of its own, which kills itself: `python -m tests.coordinator.sweeping_process`.

The environment says which ledger and store (BJ_DATABASE, BJ_STORE), and whether it dies before or after it deletes an
object (BJ_DIES).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.coordinator.sweeper import Sweeper, Sweeping
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from tests.coordinator.stage import PERIODS, process


class Deadly(ArtifactStore):
    """A store whose user dies of a deletion."""

    def delete(self, path: str) -> None:
        """Dies before or after it."""
        if os.environ["BJ_DIES"] == "after":
            super().delete(path)
        os.kill(os.getpid(), signal.SIGKILL)


async def main() -> int:
    ledger = AsyncLedgerConnection(ConnectOptions(os.environ["BJ_DATABASE"]))
    store = Deadly(StoreOptions(url=os.environ["BJ_STORE"]))
    await Sweeper(ledger, process("killed"), Sweeping(store=store), PERIODS).run_once()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
