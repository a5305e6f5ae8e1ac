"""`brokerjobs setup --recreate`: a queue with other arguments is made anew, and its jobs are rung again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.broker import names, removal
from brokerjobs.ledger import services
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database

OTHER_LIMIT = {"BROKERJOBS_BROKER__DELIVERY_LIMIT": "7"}


def test_queue__with_other_arguments_is_exit_code_5(
    ready: Command, as_owner: dict[str, str], shop: str, namespace: str
) -> None:
    said = ready("setup", shop, env=as_owner | OTHER_LIMIT).fails(5, "x-delivery-limit", "wanted 7")

    assert f"next: brokerjobs setup module:app --recreate {namespace}.q." in said


def test_recreate__makes_the_queue_anew_and_rings_its_jobs(
    ready: Command, as_owner: dict[str, str], database: Database, shop: str, namespace: str
) -> None:
    job = ready("submit", f"{namespace}/add", "1").ok().out.strip()
    other = ready("submit", f"{namespace}/refuse", "1").ok().out.strip()
    _mark_as_rung(database, namespace)

    said = ready(
        "setup", shop, "--recreate", "sums", "--recreate", f"{namespace}.q.default", env=as_owner | OTHER_LIMIT
    )

    assert f"made {namespace}.q.sums anew; 1 job that waits" in said.ok().out
    assert {str(row.job_id) for row in _outbox(database, namespace)} == {job, other}
    ready("setup", shop, env=as_owner | OTHER_LIMIT).ok()
    ready("setup", shop, env=as_owner).fails(5)


def test_recreate__rings_only_jobs_of_its_route(
    ready: Command, as_owner: dict[str, str], database: Database, shop: str, namespace: str
) -> None:
    jobs = {ready("submit", f"{namespace}/add", "1").ok().out.strip() for _ in range(3)}
    ready("submit", f"{namespace}/refuse", "1").ok()
    later = ready("submit", f"{namespace}/add", "1", "--at", "1h").ok().out.strip()
    _mark_as_rung(database, namespace)

    done = ready("setup", shop, "--recreate", "sums", "-o", "json", env=as_owner).json()

    assert done["rung_again"] == {f"{namespace}.q.sums": 3}
    assert {str(row.job_id) for row in _outbox(database, namespace)} == jobs
    assert later not in jobs


async def test_recreate__does_not_lose_kept_messages_unasked(
    ready: Command, as_owner: dict[str, str], shop: str, namespace: str, broker_url: str
) -> None:
    queue = names.quarantine_queue(namespace)
    await _put_into_quarantine(broker_url, namespace)
    recreate = ("setup", shop, "--recreate", queue)

    kept = ready.process(*recreate, env=as_owner)
    kept.fails(7, "keeps 1 message that", "--yes")
    assert await removal.message_count(broker_url, queue) == 1
    ready.process(*recreate, "--yes", env=as_owner).ok()
    assert await removal.message_count(broker_url, queue) == 0


def test_recreate__of_what_is_no_queue_of_the_application_is_usage(
    ready: Command, as_owner: dict[str, str], shop: str, namespace: str
) -> None:
    ready("setup", shop, "--recreate", "sum", env=as_owner).fails(2, f"{namespace}.q.sums")
    ready("setup", "--recreate", "sums", env=as_owner).fails(2, "needs the application")


def _outbox(database: Database, namespace: str) -> list[services.Taken]:
    coordinator = LedgerConnection(ConnectOptions(database.coordinator_url))
    try:
        return [row for row in coordinator.fetch(services.outbox_take("0", 100)) if row.namespace == namespace]
    finally:
        coordinator.close()


def _mark_as_rung(database: Database, namespace: str) -> None:
    coordinator = LedgerConnection(ConnectOptions(database.coordinator_url))
    try:
        coordinator.fetch(
            services.outbox_done([row.ticket for row in _outbox(database, namespace) if row.ticket is not None])
        )
    finally:
        coordinator.close()
    assert not _outbox(database, namespace)


async def _put_into_quarantine(url: str, namespace: str) -> None:
    """Delete nothing, only publish to a queue's dead-letter exchange what its consumer would reject."""
    from aiormq import connect  # noqa: PLC0415

    connection = await connect(url)
    channel = await connection.channel()
    await channel.basic_publish(b"?", exchange=names.quarantine_exchange(namespace))
    await connection.close()
