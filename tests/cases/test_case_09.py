"""Case 09: a handler that always raises ends after its attempts with all its errors, and nothing goes round."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from brokerjobs.broker import names
from tests.broker import raw
from tests.coordinator.stage import arrived
from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.databases import Database

HEARTBEATS = "select heartbeat_at from brokerjobs.worker where name = 'worker-a'"
DELAYS_SECONDS = (0.01, 0.02)  # the longest after the first and the second attempt, by the type's policy


async def test_case_09_a_handler_that_always_raises_ends_after_its_attempts(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on, coordinating(on.made):
        with on.worker() as worker:
            job = await on.made.submit(on.repeatable, ["line:ran", "raise:never works"])
            record = await on.made.reached(job.id, "failed", 30)
            await raw.comes_to_hold(broker_url, names.dead_queue(namespace), 1)

            began, used = await _beat(on.made), _processor_seconds(worker.popen.pid)
            ended = await _beat(on.made, after=await _beat(on.made, after=began))
            used = _processor_seconds(worker.popen.pid) - used
            assert await worker.drain() == 0
        later = await on.made.record(job.id)
        (message,) = await arrived(broker_url, names.dead_queue(namespace))

    assert on.lines("ran") == ["1", "2", "3"]
    assert record["failure"] == {"class": "exhausted", "reason": "3 of 3 attempts used"}
    assert [attempt["failure"]["message"] for attempt in record["attempts"]] == ["never works"] * 3
    assert [attempt["failure"]["type"] for attempt in record["attempts"]] == ["RuntimeError"] * 3
    assert all(attempt["safe_to_retry"]["safe"] for attempt in record["attempts"])
    _waits_grow(record)

    # No message goes round: each attempt came by a ring of its own, nothing was redelivered, nothing is left.
    tickets = [attempt["delivery"]["ticket"] for attempt in record["attempts"]]
    assert len(set(tickets)) == 3
    assert not any(attempt["delivery"]["redelivered"] for attempt in record["attempts"])
    assert [one["kind"] for one in later["events"]] == [one["kind"] for one in record["events"]]
    assert await raw.messages_in(broker_url, names.route_name(namespace, "default")) == 0
    assert used < (ended - began).total_seconds() / 4  # a loop takes all of it, an idle worker a fiftieth

    letter: dict[str, Any] = json.loads(message.body)
    assert (letter["id"], letter["failure"]["class"]) == (str(job.id), "exhausted")
    assert [attempt["failure"]["message"] for attempt in letter["attempts"]] == ["never works"] * 3
    assert "payload" not in letter


def _waits_grow(record: dict[str, Any]) -> None:
    """Each next try is later than the one before, and within what the policy says for it."""
    reports = [attempt["report"] for attempt in record["attempts"]]
    assert reports[-1]["retry_at"] is None
    times = [
        (datetime.fromisoformat(one["received_at"]), datetime.fromisoformat(one["retry_at"])) for one in reports[:-1]
    ]
    for (received, retry_at), longest, following in zip(times, DELAYS_SECONDS, record["attempts"][1:], strict=True):
        assert 0 <= (retry_at - received).total_seconds() <= longest
        assert datetime.fromisoformat(following["claimed_at"]) >= retry_at
    assert times[0][1] < times[1][1]


async def _beat(made: Any, after: datetime | None = None) -> datetime:
    """The worker's next heartbeat, which comes once a second."""

    async def came() -> datetime | None:
        async with await psycopg.AsyncConnection.connect(made.database.admin_url) as connection:
            row = await (await connection.execute(HEARTBEATS)).fetchone()
        return row[0] if row and (after is None or row[0] > after) else None

    return await eventually(came, 20)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
