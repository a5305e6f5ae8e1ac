"""Rolling release of a payload model: jobs that only the new one takes wait for a worker that has it."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import psycopg
from pydantic import BaseModel, ConfigDict
from uuid_utils.compat import uuid7

from brokerjobs import App
from brokerjobs.ledger import calls
from brokerjobs.worker.options import Duty
from brokerjobs.worker.worker import Worker
from tests.flow.driving import Flow, coordinating, flow
from tests.waiting import eventually

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from brokerjobs.job_type import JobType
    from tests.databases import Database


class Old(BaseModel):
    """The payload of the last release."""

    model_config = ConfigDict(extra="forbid")

    cents: int


class New(Old):
    """The payload of this release, which says one thing more."""

    currency: str


def app_with(namespace: str, model: Any) -> App:
    """The application with one of both models; its handler answers the name of the model."""
    app = App(namespace)
    pay: JobType[Any, str] = app.job_type("pay", model, str, repeatable=False)

    @pay.handler
    async def _(order: Any) -> str:
        return type(order).__name__

    return app


def worker_of(made: Flow, app: App, name: str) -> Worker:
    """A worker of another release of the same application."""
    process = calls.ProcessIdentity(uuid7(), name, socket.gethostname(), os.getpid())
    return Worker(Duty(process, app.namespace, dict(app.types)), made.options)


async def submitted_from_sql(database: Database, namespace: str, payload: str) -> UUID:
    """A job whose payload no model has seen."""
    async with await psycopg.AsyncConnection.connect(database.producer_url, autocommit=True) as connection:
        cursor = await connection.execute(
            "select job_id from brokerjobs.submit_v1(%s, 'pay', %s::jsonb)", [namespace, payload]
        )
        row = await cursor.fetchone()
    assert row is not None
    job: UUID = row[0]
    return job


async def waiting_for_placement(made: Flow, job: UUID) -> dict[str, Any]:
    """The job's record, once a worker has given it back and it waits for another."""

    async def waits() -> dict[str, Any] | None:
        record = await made.record(job)
        waiting = record["waiting"]
        return record if waiting and waiting["for"] == "placement" and "not_qualified" in waiting["detail"] else None

    return await eventually(waits)


async def test_checked_payload__that_a_workers_model_refuses_is_run_by_another(
    database: Database, namespace: str, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    new, old = app_with(namespace, New), app_with(namespace, Old)
    async with (
        flow(new, database, broker_url) as made,
        coordinating(made),
        made.working(worker_of(made, old, "worker-old")),
    ):
        job = (await made.submit(new.types["pay"], New(cents=5, currency="EUR"))).id
        waits = await waiting_for_placement(made, job)
        async with made.working(worker_of(made, new, "worker-new")):
            done = await made.reached(job, "succeeded", 30)

    assert waits["waiting"]["detail"]["not_qualified"] == "pay"
    assert "invalid at currency" in waits["waiting"]["detail"]["message"]
    assert waits["charged"] == 0
    assert done["result"] == "New"
    assert [(a["worker"], a["state"], a["charged"]) for a in done["attempts"]] == [
        ("worker-old", "released", False),
        ("worker-new", "completed", True),
    ]
    assert "is not qualified here" in caplog.text


async def test_unchecked_payload__that_a_workers_model_refuses_fails_at_once(
    database: Database, namespace: str, broker_url: str
) -> None:
    new, old = app_with(namespace, New), app_with(namespace, Old)
    async with (
        flow(new, database, broker_url) as made,
        coordinating(made),
        made.working(worker_of(made, old, "worker-old")),
    ):
        job = await submitted_from_sql(database, namespace, '{"cents": 5, "currency": "EUR"}')
        record = await made.reached(job, "failed")

    assert record["failure"]["class"] == "invalid"
    assert "invalid at currency" in record["failure"]["reason"]
    assert [attempt["state"] for attempt in record["attempts"]] == ["failed"]
