"""Attempts whose leases have a history, made by the ledger's own calls on a clock that the test sets."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from uuid import UUID

from brokerjobs.ledger import calls
from tests.ledger.ledger_caller import holding_of, new_job

if TYPE_CHECKING:
    from datetime import datetime

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger


def id_at(at: datetime) -> UUID:
    """A UUIDv7 that was made then (RFC 9562)."""
    milliseconds = int(at.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 7 << 76 | random.getrandbits(12) << 64 | 2 << 62 | random.getrandbits(62))


def claimed(ledger: Ledger, job: UUID | None = None) -> Holding:
    """Claims a job, with an id of the ledger's time."""
    answer = ledger.worker.claim(job or ledger.submit(), id_at(ledger.clock.now))
    assert answer.verdict == "granted"
    return holding_of(answer)


def much_renewed(
    ledger: Ledger, count: int, *, kind: str = "work", silent: float = 10.1, stopped: int = 0
) -> list[Holding]:
    """Attempts that renew after 10 s, and after 20, once after a silence of so long, and complete after 25.

    Answers the first ones, of which nothing more was heard after 20 s.
    """
    answers = ledger.submit_all([new_job() for _ in range(count)], kind)
    wanted = [(answer.id, id_at(ledger.clock.now)) for answer in answers]
    holdings = [holding_of(answer) for answer in ledger.worker.claim_all(wanted)]
    for _ in range(2):
        ledger.clock.advance(10)
        ledger.worker.fetch(calls.renew(holdings, [None] * count))
    ledger.clock.advance(5)
    reports = [
        ledger.worker.report(
            one,
            {},
            started_at=ledger.clock.after(-25),
            renewals=2,
            smallest_margin_seconds=30 - silent,
            longest_round_trip_seconds=0.1,
        )
        for one in holdings[stopped:]
    ]
    assert {answer.verdict for answer in ledger.worker.fetch(calls.complete(reports))} == {"accepted"}
    return holdings[:stopped]
