"""The record of a job: what people and dead letters read."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.ledger.ledger_caller import TEMPORARY, new_job

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger


def _texts(value: Any) -> list[str]:
    """Every text in a JSON document."""
    found: list[str] = []
    json.loads(json.dumps(value), object_pairs_hook=lambda pairs: found.extend(_leaves(part for _, part in pairs)))
    return found


def _leaves(parts: Iterable[Any]) -> list[str]:
    return [part for part in parts if isinstance(part, str)]


def _eventful(ledger: Ledger) -> UUID:
    ledger.declare("once", repeatable=False, attempts=9)
    job = ledger.submit("once", not_before=timedelta(seconds=1), deadline=10_000)
    ledger.ring_again(job)
    ledger.worker.claim(job, types=["other"])
    ledger.ring_again(job)
    for way in ("fail", "snooze", "lose"):
        holding = ledger.worker.take(job)
        match way:
            case "fail":
                ledger.worker.fail(holding, {**TEMPORARY, "retry_after": 5})
            case "snooze":
                ledger.worker.snooze(holding, 5)
            case _:
                ledger.lose(holding)
        ledger.ring_again(job)
    holding = ledger.worker.take(job)
    ledger.worker.start(holding)
    ledger.open().claim(job)
    ledger.producer.cancel(job)
    ledger.lose(holding)
    ledger.worker.complete(holding, {"secret": "result"})
    ledger.worker.complete(holding, {"secret": "second"})
    return job


def test_record__says_every_time_in_utc_whatever_the_session_zone(ledger: Ledger) -> None:
    for caller in (ledger.worker, ledger.coordinator, ledger.producer):
        caller.sql("set timezone = 'Asia/Kathmandu'")
        caller.sql("set intervalstyle = 'iso_8601'")

    record = ledger.producer.record(_eventful(ledger))

    for caller in (ledger.worker, ledger.coordinator, ledger.producer):
        caller.sql("reset all")
    times = [text for text in _texts(record) if re.match(r"\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4}", text)]
    assert len(times) > 40
    assert [text for text in times if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)] == []
    assert record["state"] == "review"


def test_dead_letter__carries_the_record_without_payload_or_any_result(ledger: Ledger) -> None:
    (answer,) = ledger.submit_all([new_job({"secret": "payload"}, deadline=60)])
    first = ledger.worker.take(answer.id)
    ledger.worker.fail(first, {**TEMPORARY, "result": {"secret": "evidence"}})
    ledger.ring_again(answer.id)
    second = ledger.worker.take(answer.id)
    ledger.worker.complete(first, {"secret": "second report"})
    ledger.clock.advance(60)
    assert ledger.worker.complete(second, {"secret": "refused"}).state == "failed"

    (message,) = [m for m in ledger.coordinator.outbox_take()[0] if m.job_id == answer.id and m.kind == "dead"]

    assert message.body is not None
    assert "secret" not in message.body
    assert '"class": "deadline"' in message.body
    assert "secret" in str(ledger.producer.record(answer.id))
