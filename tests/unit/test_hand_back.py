"""Giving deliveries back while the ledger is away."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from brokerjobs.broker.protocol import Delivery
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.worker.hand_back import HandBack
from tests import deliveries
from tests.deliveries import delivery
from tests.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from brokerjobs.worker.inbox import Inbox


def nowhere(inbox: Inbox, settled: list[Delivery]) -> HandBack:
    """With a ledger that nobody serves."""
    ledger = AsyncLedgerConnection(ConnectOptions("postgresql://nobody@127.0.0.1:1/none"))
    return HandBack(inbox, ledger, settled.append, "worker-a", timedelta(seconds=30))


async def test_run__keeps_in_its_place_what_the_ledger_gave_no_answer_to(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "brokerjobs")
    inbox, settled = deliveries.inbox(), list[Delivery]()
    waiting = [delivery(60), delivery(50), delivery(1)]
    for one in waiting:
        inbox.put(one)
    looking = asyncio.create_task(nowhere(inbox, settled).run())

    async def has_tried() -> bool:
        return "2 unclaimed deliveries cannot be given back" in caplog.text

    await eventually(has_tried)
    looking.cancel()

    assert settled == []
    assert inbox.take(5) == waiting


async def test_drain__leaves_to_the_broker_what_the_ledger_does_not_take(caplog: pytest.LogCaptureFixture) -> None:
    inbox, settled = deliveries.inbox(), list[Delivery]()
    inbox.put(delivery())

    await nowhere(inbox, settled).drain()

    assert settled == []
    assert "1 unclaimed deliveries stay at the broker" in caplog.text


async def test_drain__of_nothing_asks_nobody(caplog: pytest.LogCaptureFixture) -> None:
    await nowhere(deliveries.inbox(), []).drain()

    assert caplog.text == ""
