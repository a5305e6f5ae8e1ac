"""Case 31: a queue that exists with other arguments is named and mended, and crashes nobody in a loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from brokerjobs.broker import names, removal
from tests.broker import raw
from tests.broker.inbox import Inbox
from tests.cli.urls import with_login

if TYPE_CHECKING:
    from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
    from tests.cli.command import Command, Done
    from tests.databases import Database

CLASSIC = {"BROKERJOBS_BROKER__QUEUE_TYPE": "classic"}


async def _declare(url: str, queue: str, arguments: dict[str, Any]) -> None:
    """As somebody else did before us, with a message of his in it."""
    async with raw.channel(url) as channel:
        await channel.queue_declare(queue, durable=True, arguments=arguments)
        await channel.basic_publish(b"his", routing_key=queue)


def predeclare(url: str, queue: str, arguments: dict[str, Any]) -> None:
    asyncio.run(_declare(url, queue, arguments))


def messages(url: str, queue: str) -> int | None:
    return asyncio.run(removal.message_count(url, queue))


def test_case_31_setup_and_worker_name_the_argument_and_one_command_mends_it(
    brokerjobs: Command, database: Database, shop: str, namespace: str, broker_url: str
) -> None:
    """The worker declares itself, as in a small set-up; RabbitMQ names the first argument that differs."""
    sums, other = names.route_name(namespace, "sums"), names.route_name(namespace, "default")
    ours: dict[str, Any] = {"x-queue-type": "classic", "x-dead-letter-exchange": names.quarantine_exchange(namespace)}
    predeclare(broker_url, sums, ours | {"x-max-priority": 5})
    as_owner = {"BROKERJOBS_DATABASE_URL": database.owner_url} | CLASSIC
    said = f"{sums!r} exists at the broker with x-max-priority = 5, wanted None"
    mends = f"next: brokerjobs setup module:app --recreate {sums}"

    assert mends in brokerjobs.process("setup", shop, env=as_owner).fails(5, said)
    job = brokerjobs("submit", f"{namespace}/refuse", '{"cents": 1}').ok().out.strip()
    worker = brokerjobs.process("worker", shop, env=as_owner)

    assert worker.code == 5, worker
    assert "Traceback" not in worker.err
    assert (said in worker.err, mends in worker.err) == (True, True)
    assert (messages(broker_url, sums), messages(broker_url, other)) == (1, 0), "both queues are as they were"
    assert brokerjobs("jobs", "show", job, "-o", "json").json()["attempts"] == []

    brokerjobs("setup", shop, "--recreate", sums, env=as_owner).ok()
    with brokerjobs.running("worker", shop, said="is up for", env=as_owner) as mended:
        assert brokerjobs("submit", "add", '{"cents": 1}', "--app", shop, "--wait").ok().out == "2\n"
        assert mended.terminated() == 0, mended.log()


def test_case_31_a_worker_without_the_right_to_declare_is_told_by_the_ledger(
    brokerjobs: Command, database: Database, shop: str, namespace: str, node: PrivateRabbitMQ
) -> None:
    """It may only read its routes; whether they are what they should be, a coordinator has found out."""
    sums = names.route_name(namespace, "sums")
    node.ctl("add_user", namespace, "p")
    node.ctl("set_permissions", namespace, "^$", "^$", f"^{namespace}\\.q\\.")
    reads = with_login(node.url, f"{namespace}:p")
    brokerjobs.env["BROKERJOBS_BROKER_URL"] = node.url
    predeclare(node.url, sums, {"x-queue-type": "classic"})
    as_worker = {"BROKERJOBS_DATABASE_URL": database.worker_url, "BROKERJOBS_BROKER_URL": reads}
    as_coordinator = {"BROKERJOBS_DATABASE_URL": database.coordinator_url, "BROKERJOBS_WORKER__HEARTBEAT": "200ms"}
    worker = ("worker", shop, "--no-coordinator")

    with brokerjobs.running(*worker, said="is up for", env=as_worker) as unaware:
        with brokerjobs.running("coordinator", said=f"route {sums!r} is not declared", env=as_coordinator):
            told = brokerjobs.process(*worker, env=as_worker)
        assert unaware.terminated() == 0, "what runs is not ended for one of its routes"

    assert told.code == 5, told
    assert "Traceback" not in told.err
    assert f"{sums!r} exists at the broker with " in told.err
    assert f"next: brokerjobs setup module:app --recreate {sums}" in told.err
    as_owner = {"BROKERJOBS_DATABASE_URL": database.owner_url}
    brokerjobs("setup", shop, "--recreate", "sums", env=as_owner).ok()
    with brokerjobs.running(*worker, said="is up for", env=as_worker) as mended:
        assert mended.terminated() == 0, mended.log()


async def test_case_31_a_queue_that_belongs_to_another_connection_disturbs_no_other(
    brokerjobs: Command, database: Database, shop: str, namespace: str, broker_url: str
) -> None:
    sums, other = names.route_name(namespace, "sums"), names.route_name(namespace, "default")
    as_owner = {"BROKERJOBS_DATABASE_URL": database.owner_url}

    async def setup(*more: str) -> Done:
        return await asyncio.to_thread(brokerjobs, "setup", shop, *more, env=as_owner)

    async with raw.channel(broker_url) as channel:
        await channel.queue_declare(sums, exclusive=True)
        (await setup()).fails(5, f"{sums!r} exists at the broker with exclusive = True, wanted False")
        (await setup("--recreate", "sums")).fails(9, "belongs to another connection alone; it goes when that is closed")
        async with Inbox(broker_url, {sums: 5, other: 5}) as received:
            await received.consumes(other)
            for number in range(1, 4):
                await channel.basic_publish(b"?", exchange=names.jobs_exchange(namespace), routing_key=other)
                await received.refuses(number)
                assert received.consumer.consuming == {other}
            assert {message.generation for message in received.unreadable} == {received.unreadable[0].generation}
    (await setup()).ok()
