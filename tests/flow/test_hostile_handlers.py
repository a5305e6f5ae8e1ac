"""Handlers that end in ways nobody has thought of fail their own attempt, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App, RetryPolicy, TemporaryFailure
from tests.flow.driving import coordinating, flow

if TYPE_CHECKING:
    from tests.databases import Database

ONCE = RetryPolicy(attempts=1)
LONG = timedelta(minutes=1)


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unlooked(Exception):
    def __getattribute__(self, name: str) -> Any:
        if name == "__notes__":
            raise SystemExit(3)
        return super().__getattribute__(name)


class Forgetful(TemporaryFailure):
    def __init__(self) -> None:  # and so it has no `retry_after`
        pass


RAISED: list[tuple[type[BaseException], str]] = [
    (SystemExit, ""),
    (KeyboardInterrupt, ""),
    (GeneratorExit, ""),
    (StopIteration, ""),
    (Exits, "(str() of it raised SystemExit)"),
    (Unlooked, "looking at it raised SystemExit"),
    (Forgetful, ""),
]


@pytest.mark.parametrize("in_thread", [True, False])
async def test_handler__fails_its_attempt_alone_whatever_it_raises(
    database: Database, namespace: str, broker_url: str, *, in_thread: bool
) -> None:
    app = App(namespace)

    def work(kind: int) -> int:
        if kind < 0:
            return kind
        raise RAISED[kind][0]

    async def work_async(kind: int) -> int:
        return work(kind)

    declared = app.job_type("work", int, int, repeatable=True, retry=ONCE, lease=LONG, time_limit=LONG)
    if in_thread:
        declared.handler(work)
    else:
        declared.handler(work_async)
    async with flow(app, database, broker_url) as made, coordinating(made), made.working(made.worker()):
        jobs = await made.submit_many(declared, range(len(RAISED)))
        records = [await made.reached(job, "failed", 20) for job in jobs]
        (good,) = await made.submit_many(declared, [-1])
        await made.reached(good, "succeeded")
    failures = [record["attempts"][0]["failure"] for record in records]
    assert [one["message"] for one in failures if one["type"] == "SystemExit"] == [""]
    for (_, said), failure in zip(RAISED, failures, strict=True):
        assert said in failure["message"]
        assert failure["class"] == "temporary"
