"""Whoever opens a review logs it, in one vocabulary: which review, of which job and attempt, and what to type."""

from __future__ import annotations

import asyncio
import os
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from uuid_utils.compat import uuid7

from brokerjobs import App, JobContext
from brokerjobs.broker.names import route_name
from brokerjobs.ledger import calls, services
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions, Query
from tests.flow.driving import Flow, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    import pytest

    from tests.databases import Database

LEASE = timedelta(seconds=1)
FACTS = ("event", "review_id", "job_id", "attempt_id", "namespace", "job_type", "cause")


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if getattr(one, "event", None) == "review_opened"]


def telling(caplog: pytest.LogCaptureFixture) -> Callable[[], Awaitable[bool]]:
    async def has_told() -> bool:
        return bool(told(caplog))

    return has_told


def facts(said: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(said, name) for name in FACTS}


def expected(record: dict[str, Any], cause: str) -> dict[str, Any]:
    (review,) = record["reviews"]
    return {
        "event": "review_opened",
        "review_id": review["id"],
        "job_id": record["id"],
        "attempt_id": record["attempts"][0]["id"],
        "namespace": record["namespace"],
        "job_type": record["type"],
        "cause": cause,
    }


async def lost_attempt(made: Flow, job_type: str) -> calls.Holding:
    """A started attempt of a worker that is gone."""
    job = await made.submit(made.app.types[job_type], 1)
    gone = calls.ProcessIdentity(uuid7(), "gone", socket.gethostname(), os.getpid())
    ledger = AsyncLedgerConnection(ConnectOptions(made.database.worker_url))
    route = route_name(made.app.namespace, "default")
    request = calls.ClaimRequest(job.id, uuid7(), route, uuid7(), redelivered=False, delivered_at=datetime.now(UTC))
    (claimed,) = await ledger.fetch(calls.claim(gone, made.app.namespace, [job_type], [request]))
    holding = calls.Holding(job.id, claimed.attempt_id, claimed.fencing_number)
    (answer,) = await ledger.fetch(calls.start([holding], [datetime.now(UTC)]))
    assert answer.verdict == "started"
    await ledger.close()
    return holding


async def test_claim__that_finds_a_lost_attempt_says_what_the_reaper_would_have_said(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)

    @app.job("pay", repeatable=False, lease=LEASE)
    async def pay(payload: int) -> None:
        raise AssertionError("nobody may pay twice")

    async with flow(app, database, broker_url) as made, made.working(made.worker()):
        by_claim = await lost_attempt(made, pay.name)
        reaper = AsyncLedgerConnection(ConnectOptions(database.coordinator_url))
        process = calls.ProcessIdentity(uuid7(), "reaper-a", "host", 1)

        async def claims_it() -> bool:
            """A reaper ticks, and gives nothing up."""
            await reaper.fetch(services.lead("reaper", process, 4.0))
            await made.ring(by_claim.job_id)
            return await made.state(by_claim.job_id) == "review"

        await eventually(claims_it, 20)
        await reaper.close()
        await eventually(telling(caplog))
        record = await made.record(by_claim.job_id)
    (said,) = told(caplog)
    assert record["attempts"][0]["closed"]["by"] == "claim"
    assert facts(said) == expected(record, "attempt 1 lost its lease")
    assert said.getMessage() == (
        f"review_opened job={by_claim.job_id} attempt={by_claim.attempt_id} review={record['reviews'][0]['id']}"
        f" type={namespace}/pay: attempt 1 lost its lease; its outcome is unknown, see: brokerjobs review show"
        f" {by_claim.job_id}"
    )


async def test_renewal__that_ends_an_attempt_at_its_deadline_says_that_a_review_opened(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(namespace)
    began, go = asyncio.Event(), asyncio.Event()

    @app.job("pay", repeatable=False, lease=LEASE)
    async def pay(payload: int, ctx: JobContext) -> None:
        began.set()
        await go.wait()

    async with flow(app, database, broker_url) as made, made.working(made.worker()):
        job = await made.submit(pay, 1, deadline=datetime.now(UTC) + timedelta(hours=1))
        await made.ring(job.id)
        await began.wait()
        owner = AsyncLedgerConnection(ConnectOptions(database.owner_url))
        await owner.fetch(Query(_PAST_DEADLINE, [job.id], calls.Nothing))
        await owner.close()
        record = await made.reached(job.id, "review", 20)
        await eventually(telling(caplog))
        go.set()
    (said,) = told(caplog)
    assert record["attempts"][0]["closed"]["by"] == "renewal"
    assert facts(said) == expected(record, "attempt 1 ran at its job's deadline")


# It answers a row, as every query of ours.
_PAST_DEADLINE = "update brokerjobs.job_state set deadline = clock_timestamp() where job_id = %s returning job_id"
