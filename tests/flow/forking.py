"""A program whose client was made, and perhaps used, before it forked: `python -m tests.flow.forking used|fresh`.

Prints what its processes have submitted, as one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from brokerjobs import App
from tests.flow.producing import Charge, Receipt

if TYPE_CHECKING:
    from brokerjobs import JobType, SyncClient

    Type: TypeAlias = JobType[Charge, Receipt]

CHILDREN = 3


def main() -> None:
    """Submits before the fork, forks while a thread submits, and submits in every process."""
    charge: Type = App(os.environ["FORKING_NAMESPACE"]).job_type(
        "payment.charge", Charge, Receipt, repeatable=True, queue="payments"
    )
    client = App(charge.namespace).sync_client(submitted_by="forking")
    used = sys.argv[1] == "used"
    ids: list[str] = []
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            ids.extend(submitted(client, charge, 1))

    busy = threading.Thread(target=go_on)
    if used:
        busy.start()
        while len(sessions()) < 3:  # the busy thread's, one that is idle when it forks, and the one behind them
            ids += submitted(client, charge, 5)
    before = sessions()
    reading, writing = os.pipe()
    pids = [os.fork() or in_child(client, charge, writing) for _ in range(CHILDREN)]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    stop.set()
    if used:
        busy.join()
    os.close(writing)
    with os.fdopen(reading) as answers:
        children = [json.loads(line) for line in answers]
    ids += submitted(client, charge, 5)
    undisturbed = before <= sessions()
    client.close()
    told = {"parent": ids, "children": children, "statuses": statuses, "undisturbed": undisturbed}
    sys.stdout.write(json.dumps(told))


def submitted(client: SyncClient, charge: Type, count: int) -> list[str]:
    """Submits some jobs, and answers their ids."""
    return [str(client.submit(charge, Charge()).id) for _ in range(count)]


def in_child(client: SyncClient, charge: Type, writing: int) -> int:
    """What a child does: it submits, waits for a result, and ends as a program does."""
    ids = submitted(client, charge, 20)
    handle = client.find(charge, key="done")
    assert handle is not None
    result = handle.result(timeout=timedelta(seconds=20))
    os.write(writing, (json.dumps({"ids": ids, "result": result.reference}) + "\n").encode())
    sys.exit(0)


def sessions() -> set[int]:
    """The server processes of all connections of these clients."""
    with psycopg.connect(os.environ["FORKING_ADMIN_URL"]) as admin:
        rows = admin.execute("select pid from pg_stat_activity where application_name = 'brokerjobs client forking'")
        return {pid for (pid,) in rows}


if __name__ == "__main__":
    main()
