"""Options that hold URLs never show them: what is logged or raised may be read by anybody."""

from __future__ import annotations

from brokerjobs.coordinator.process import BrokerOptions
from brokerjobs.ledger.database import ConnectOptions
from brokerjobs.worker.options import WorkerOptions


def test_options__do_not_show_passwords() -> None:
    url = "postgresql://someone:canary@127.0.0.1/db"
    shown = [
        repr(ConnectOptions(url)),
        repr(BrokerOptions(url=url)),
        repr(WorkerOptions(database_url=url, broker_url=url)),
    ]
    assert [text for text in shown if "canary" in text] == []
