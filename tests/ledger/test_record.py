"""The record of a job: what people and dead letters read."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.json_schema import problems
from tests.ledger.effects import Effects
from tests.ledger.ledger_caller import TEMPORARY, new_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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
    Effects(ledger.worker).grant(first)
    Effects(ledger.worker).happened(first, {"secret": "effect"})
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


def _many_failed(ledger: Ledger) -> Iterator[UUID]:
    """Jobs that failed, or went into review, after much had happened."""
    ledger.declare("work", attempts=2)
    yield ledger.submit(deadline=5)
    job = ledger.submit(deadline=60)
    first = ledger.worker.take(job)
    ledger.lose(first)
    ledger.ring_again(job)
    second = ledger.worker.take(job)
    ledger.worker.complete(first, {"too": "late"})
    ledger.worker.fail(second, {**TEMPORARY, "class": "unsafe", "traceback": "Traceback …"})
    ledger.producer.cancel(job)
    yield job
    given_up = ledger.worker.take(ledger.submit())
    ledger.worker.fail(given_up, {**TEMPORARY, "class": "unsafe"})
    ledger.operator.resolve(given_up.job_id, "give_up")
    yield given_up.job_id
    again = ledger.worker.take(ledger.submit())
    ledger.worker.fail(again, {**TEMPORARY, "class": "invalid"})
    ledger.operator.replay(again.job_id)
    ledger.worker.fail(ledger.worker.take(again.job_id), {**TEMPORARY, "class": "policy"})
    yield again.job_id


def test_dead_letters__fit_their_documented_schema(ledger: Ledger) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/reference/dead-letter.schema.json").read_text())
    jobs = set(_many_failed(ledger))
    ledger.clock.advance(60)
    ledger.coordinator.due()

    taken = ledger.coordinator.sql(
        "select job_id, body from brokerjobs.outbox_messages('0', 1000, '{dead,review}') where kind <> 'mark'"
    )

    bodies = {job: json.loads(body) for job, body in taken if job in jobs}
    assert bodies.keys() == jobs
    assert {body["state"] for body in bodies.values()} == {"failed", "review"}
    assert [problem for body in bodies.values() for problem in problems(body, schema, schema)] == []


def test_schema__refuses_what_is_none() -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/reference/dead-letter.schema.json").read_text())

    said = list(problems({"schema": "brokerjobs.job/1", "id": "x", "payload": 1, "state": "queued"}, schema, schema))

    assert any("it has no 'attempts'" in one for one in said)
    assert any(one.startswith(".id: 'x' does not match") for one in said)
    assert any("'queued' is none of" in one for one in said)
    assert any("it fits {'anyOf'" in one for one in said)
