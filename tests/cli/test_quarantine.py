"""`brokerjobs quarantine`: list, show, export, and taking messages out."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from pamqp.commands import Basic

from brokerjobs.broker import names, removal
from brokerjobs.broker.brokers import broker_at
from brokerjobs.broker.connection import linked
from brokerjobs.broker.topology import Topology
from brokerjobs.ledger import calls
from tests.broker.raw import DELIVERY_MODE, PERSISTENT, RawMessage, publish
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pamqp.common import FieldTable

    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger

BODIES = [b'{"v":1,"job":"x"}', b"\xff\xfe not text", b""]


def quarantined(ledger: Ledger, reason: str, job: UUID | None = None) -> None:
    """A worker rejects a message."""
    strange = calls.Strange(ledger.place.route(), reason, uuid4(), job, "d" * 64)
    ledger.worker.fetch(calls.quarantine("worker-a", strange))


def has(broker_url: str, queue: str, count: int) -> None:
    """Waits until so many messages are ready in a queue."""
    eventually_sync(lambda: asyncio.run(broker_at(broker_url).message_count(queue)) == count)


@pytest.fixture
def queue(namespace: str, broker_url: str) -> Iterator[str]:
    """The namespace's quarantine queue, with three messages."""
    topology = Topology(namespaces=frozenset({namespace}))
    asyncio.run(broker_at(broker_url).declare(topology))
    name = names.quarantine_queue(namespace)
    properties = {DELIVERY_MODE: PERSISTENT}
    asyncio.run(publish(broker_url, *(RawMessage("", name.encode(), properties, body) for body in BODIES)))
    has(broker_url, name, 3)
    yield name
    asyncio.run(removal.remove_all(broker_url, topology))


def test_list_and_show__say_what_was_recorded(operator: Command, ledger: Ledger) -> None:
    place, job = ledger.place.namespace, ledger.submit()
    quarantined(ledger, "not_json")
    quarantined(ledger, "wrong_route", job)

    newest, oldest = operator("quarantine", "list", "--namespace", place, "-o", "json").lines()

    assert (newest["schema"], newest["reason"], newest["job"]) == ("brokerjobs.quarantined/1", "wrong_route", str(job))
    assert (oldest["reason"], oldest["job"], oldest["body_sha256"]) == ("not_json", None, "d" * 64)
    assert operator("quarantine", "show", newest["number"], "-o", "json").json() == newest
    assert str(job) in operator("quarantine", "show", newest["number"]).ok().out
    assert operator("quarantine", "list", "--namespace", place, "--reason", "not_json", "-o", "json").lines() == [
        oldest
    ]
    assert "--before" in operator("quarantine", "list", "--namespace", place, "--limit", "1").err
    table = operator("quarantine", "list", "--namespace", place, "-o", "table").ok().out
    assert table.splitlines()[0].split() == ["NUMBER", "AGE", "REASON", "ROUTE", "JOB", "WORKER"]
    assert operator("quarantine", "export", "--namespace", place).lines() == [newest, oldest]
    operator("quarantine", "show", "999999999").fails(6, "999999999", "brokerjobs quarantine list")


def test_export__takes_messages_out_of_the_broker_into_a_file(
    brokerjobs: Command, queue: str, namespace: str, folder: Path, broker_url: str
) -> None:
    export = ("quarantine", "export", "--namespace", namespace, "--take", "messages.jsonl")

    assert "2 messages taken" in brokerjobs(*export, "--limit", "2").ok().err

    found = [json.loads(line) for line in (folder / "messages.jsonl").read_text().splitlines()]
    assert [one["schema"] for one in found] == ["brokerjobs.quarantined_message/1"] * 2
    assert found[0]["body"] == BODIES[0].decode()
    assert (found[1]["body"], base64.b64decode(found[1]["body_base64"])) == (None, BODIES[1])
    assert not any(one["redelivered"] for one in found)
    has(broker_url, queue, 1)
    brokerjobs(*export).fails(2, "messages.jsonl", "new file")
    has(broker_url, queue, 1)


def test_export__of_a_namespace_without_a_queue_is_exit_code_6_and_leaves_no_file(
    brokerjobs: Command, namespace: str, folder: Path
) -> None:
    export = ("quarantine", "export", "--namespace", namespace, "--take", "none.jsonl")

    brokerjobs(*export).fails(6, f"no queue {namespace}.quarantine")
    assert not (folder / "none.jsonl").exists()


def test_export__says_of_a_rejected_message_as_json_where_it_came_from(
    brokerjobs: Command, queue: str, namespace: str, folder: Path, broker_url: str
) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    headers: FieldTable = {"x-death": [{"count": 1, "queue": "q", "time": at, "routing-keys": ["a"]}], "n": 7}

    async def send() -> None:
        async with linked(broker_url, "tests") as link:
            channel = await link.channel()
            await channel.basic_publish(b"", routing_key=queue, properties=Basic.Properties(headers=headers))

    asyncio.run(send())
    has(broker_url, queue, 4)
    brokerjobs("quarantine", "export", "--namespace", namespace, "--take", "all.jsonl").ok()

    found = json.loads((folder / "all.jsonl").read_text().splitlines()[-1])["headers"]
    death = {"count": 1, "queue": "q", "time": at.isoformat(), "routing-keys": ["a"]}
    assert (json.loads(found["x-death"]), found["n"]) == ([death], "7")


def test_export__leaves_at_the_broker_what_it_could_not_write(
    brokerjobs: Command, queue: str, namespace: str, broker_url: str
) -> None:
    export = ("quarantine", "export", "--namespace", namespace, "--take", "/dev/full")
    brokerjobs(*export).fails(2, "/dev/full")

    async def fails() -> None:
        from brokerjobs.broker import taking  # noqa: PLC0415  # this test alone

        def keep(_: taking.Taken) -> None:
            raise OSError("no room")

        with pytest.raises(OSError, match="no room"):
            await taking.take(broker_url, queue, keep, 10)

    asyncio.run(fails())
    has(broker_url, queue, 3)


def test_export__taking_wants_a_namespace_and_a_broker_with_queues(offline: Command) -> None:
    offline("quarantine", "export", "--take", "x").fails(2, "--namespace")
    memory = {"BROKERJOBS_BROKER_URL": "memory:///nowhere/socket"}
    take = ("quarantine", "export", "--take", "x", "--namespace", "n")
    offline(*take, env=memory).fails(3, "in-memory broker")
