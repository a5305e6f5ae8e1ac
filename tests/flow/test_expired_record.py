"""A key whose job's record retention has removed: the producer is told, and nothing runs again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs import ExpiredRecord, IdempotencyConflict, JobNotFound, Submission
from brokerjobs.cli import failures
from tests.flow.producing import Charge, Receipt, Shop, shop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from tests.databases import Database


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


async def removed(made: Shop) -> UUID:
    """A job with the key `order-1` that has succeeded, and whose record was removed since."""
    async with made.client("first") as client:
        job = (await client.submit(made.charge, Charge(cents=7), key="order-1")).id
    made.complete(job, Receipt(reference="r"))
    await made.execute("select brokerjobs.make_partitions(3)")
    made.let_time_pass("31 days")
    await made.execute("select * from brokerjobs.retain_jobs('30 days', '180 days', 10)")
    assert await made.count("job") == 0
    return job


async def test_submit__of_the_same_key_and_payload_is_refused_with_the_jobs_id(made: Shop) -> None:
    job = await removed(made)

    async with made.client("second") as client:
        with pytest.raises(ExpiredRecord) as refused:
            await client.submit(made.charge, Charge(cents=7), key="order-1")
        with pytest.raises(ExpiredRecord, match="submission 2 of 2"):
            await client.submit_many(made.charge, [Submission(Charge()), Submission(Charge(cents=7), key="order-1")])
        with pytest.raises(IdempotencyConflict) as conflict:
            await client.submit(made.charge, Charge(cents=8), key="order-1")

    assert (refused.value.job_id, refused.value.first_submitted_by) == (job, "first")
    assert conflict.value.job_id == job
    assert await made.count("job") == 0
    complaint = failures.complaint_of(refused.value)
    assert (complaint.code, complaint.name) == (failures.ExitCode.REFUSED, "expired_record")
    assert "another key" in complaint.hint


async def test_find__still_names_the_job_of_which_nothing_is_known(made: Shop) -> None:
    job = await removed(made)

    async with made.client() as client:
        handle = await client.find(made.charge, key="order-1")
        assert handle is not None
        assert handle.id == job
        with pytest.raises(JobNotFound):
            await handle.status()
        with pytest.raises(JobNotFound):
            await handle.result(timeout=timedelta(seconds=1))
