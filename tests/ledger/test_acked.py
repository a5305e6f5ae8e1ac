"""What is told with an acknowledgement that was sent: how the attempt's lease fared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.ledger import calls

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def test_acked__at_the_claim_takes_later_lease_figures_and_keeps_the_first_time(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    at_claim, at_end = ledger.clock.now, ledger.clock.after(40)
    figures = calls.LeaseFigures(at_claim, renewals=3, smallest_margin_seconds=1.5, longest_round_trip_seconds=0.25)

    ledger.worker.fetch(calls.acked([calls.SentAck(holding.attempt_id, at_claim, calls.LeaseFigures())]))
    ledger.worker.fetch(calls.acked([calls.SentAck(holding.attempt_id, at_end, figures)]))

    attempt = ledger.rows.attempt(holding.attempt_id)
    assert attempt.ack_sent_at == at_claim
    assert attempt.renewals == 3
    assert attempt.started_at is not None
