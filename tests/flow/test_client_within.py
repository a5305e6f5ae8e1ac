"""What a client that awaits does with `within=`, beside the promises of every door (test_doors.py)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from brokerjobs import JobNotFound, KeyInFlight, Submission
from tests.flow.producing import Charge, Shop, shop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.databases import Database


@pytest.fixture
async def made(database: Database, namespace: str, broker_url: str) -> AsyncGenerator[Shop]:
    async with shop(database, namespace, broker_url) as opened:
        yield opened


async def test_keys__held_by_another_transaction_are_waited_for_together(made: Shop) -> None:
    """Each may be waited for two seconds; those that share a commit are not waited for one after the other."""
    async with made.client() as client, made.connection() as holder:
        many = [Submission(Charge(), key=f"order-{number}") for number in range(20)]
        await client.submit_many(made.charge, many, within=holder)
        began = time.monotonic()
        answers = await asyncio.gather(
            *(client.submit(made.charge, Charge(), key=one.key) for one in many),
            client.submit_many(made.charge, many),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 10
    assert {type(answer) for answer in answers} == {KeyInFlight}


async def test_announce__rings_at_once_after_the_commit(made: Shop) -> None:
    async with made.client() as client, made.connection() as caller:
        handle = await client.submit(made.charge, Charge(), within=caller)
        with pytest.raises(JobNotFound):
            await handle.announce()
        await caller.commit()
        assert await made.count("outbox") == 1
        assert await handle.announce()
        assert await made.count("outbox") == 0
        assert not await handle.announce(), "there is nothing left to ring"
        assert await made.arrived(1) == {handle.id}
