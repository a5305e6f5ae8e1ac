"""A program whose client was made before it forked: `python -m tests.flow.forking_artifacts fresh|used|busy`.

used: it has fetched before; busy: as many transfers as may be at once were under way.

Prints whether its processes have fetched the artifact, or why not, as one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

from brokerjobs import BrokerjobsError
from brokerjobs.artifacts import transfers
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.client import ClientOptions, SyncClient
from tests.flow.depot import NOWHERE


def main() -> None:
    """Fetches before the fork, if it is told so, in the child, and after it in the parent."""
    client = SyncClient(
        ClientOptions(
            submitted_by="forking",
            database_url=os.environ["FORKING_DATABASE_URL"],
            broker_url=NOWHERE,
            artifacts=StoreOptions(**json.loads(os.environ["FORKING_STORE"])),
        )
    )
    if sys.argv[1] == "used":
        assert fetched(client, "parent") == "fetched"
    reading, writing = os.pipe()
    with ExitStack() as under_way:
        for _ in range(transfers.AT_ONCE if sys.argv[1] == "busy" else 0):
            under_way.enter_context(transfers.slots.taken(transfers.Stop()))
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # a child that hangs is a failure, not a test that never ends
            os.write(writing, fetched(client, "child").encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        in_child = told.read()
    _, status = os.waitpid(child, 0)
    in_parent = fetched(client, "parent")
    client.close()
    sys.stdout.write(json.dumps({"parent": in_parent, "child": in_child, "status": status}))


def fetched(client: SyncClient, whose: str) -> str:
    """Fetches the artifact; answers what became of it."""
    to = Path(os.environ["FORKING_INBOX"]) / whose
    try:
        client.artifacts.fetch(UUID(os.environ["FORKING_ARTIFACT"]), to=to, overwrite=True)
    except BrokerjobsError as error:
        return str(error)
    return "fetched"


if __name__ == "__main__":
    main()
