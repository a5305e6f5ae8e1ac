"""Jobs to which much has happened, made by the ledger's own calls on a clock that the test sets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

CONNECT_ERROR = {
    "class": "temporary",
    "classified": True,
    "type": "ConnectError",
    "message": "the account service at accounts.example:443 refused the connection",
    "traceback": 'Traceback (most recent call last):\n  File "pay.py", line 3, in pay\nConnectError: refused',
}


def much_happened(ledger: Ledger) -> UUID:
    """Three attempts: lost, failed, succeeded; then the late success of the first is rejected."""
    first, second, third = ledger.worker, ledger.open(), ledger.open()
    job = ledger.submit(rung=True)
    ledger.clock.advance(1.25)
    lost = first.take(job)
    ledger.clock.advance(10)
    first.renew(lost, ledger.clock.now)
    ledger.lose(lost)
    ledger.ring_again(job)
    ledger.clock.advance(0.5)
    failing = second.take(job)
    ledger.clock.advance(8)
    second.fail(failing, CONNECT_ERROR, started_at=ledger.clock.now - timedelta(seconds=7))
    ledger.ring_again(job)
    ledger.clock.advance(2)
    good = third.take(job)
    ledger.clock.advance(3)
    third.complete(good, {"receipt": "r-991"}, started_at=ledger.clock.now)
    ledger.clock.advance(12)
    first.complete(lost, {"receipt": "too late"}, observed_at=ledger.clock.now + timedelta(seconds=1.5))
    return job
