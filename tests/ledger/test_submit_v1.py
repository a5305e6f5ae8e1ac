"""submit_v1: submitted from plain SQL, in any language, in the caller's own transaction."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

if TYPE_CHECKING:
    from tests.ledger.ledger_caller import Caller
    from tests.ledger.ledger_driver import Ledger

SUBMIT_V1 = "select verdict, job_id, detail from brokerjobs.submit_v1(%s, %s, %s::jsonb, %s, %s, %s::jsonb)"

NO_KIND = 'need {"kind": "near"}: its kind is none of equal, one_of, at_least, has, exclusive and limit'
NO_NAME = (
    'need {"kind": "has", "name": "GPU", "value": "a"}: its name is not 1 to 100 lower-case letters, digits, _ - .'
)


def _submit_v1(
    caller: Caller, payload: Any = 1, *, key: str | None = None, options: Any = None, kind: str = "work"
) -> tuple[str, UUID | None, Any]:
    params = (caller.place.namespace, kind, json.dumps(payload), key, "plain SQL", json.dumps(options or {}))
    ((verdict, job, detail),) = caller.sql(SUBMIT_V1, *params)
    return verdict, job, detail


def test_submit_v1__submits_from_plain_sql(ledger: Ledger) -> None:
    job, deadline = uuid4(), datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    options = {
        "id": str(job),
        "not_before": "2020-01-01T00:00:00Z",
        "deadline": deadline.isoformat(),
        "tags": {"a": "b"},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }

    assert _submit_v1(ledger.producer, {"n": 1}, key="k", options=options) == ("created", job, None)

    record = ledger.producer.record(job)
    assert (record["payload"], record["key"], record["tags"], record["submitted_by"]) == (
        {"n": 1},
        "k",
        {"a": "b"},
        "plain SQL",
    )
    assert (record["payload_checked"], record["traceparent"]) == (False, options["traceparent"])
    assert datetime.fromisoformat(record["deadline"]) == deadline
    assert ledger.worker.claim(job).checked is False


def test_submit_v1__makes_its_own_id_from_the_ledgers_clock(ledger: Ledger) -> None:
    ((verdict, job, _),) = ledger.producer.sql(
        "select * from brokerjobs.submit_v1(%s, 'work', '1')", ledger.place.namespace
    )

    assert (verdict, job.version, job.variant) == ("created", 7, "specified in RFC 4122")
    assert datetime.fromtimestamp((job.int >> 80) / 1000, UTC) == _milliseconds(ledger.clock.now)
    assert ledger.producer.record(job)["submitted_by"] == "brokerjobs_test_producer"


def test_submit_v1__answers_keys_as_submit_does(ledger: Ledger) -> None:
    created, job, _ = _submit_v1(ledger.producer, 1, key="k")
    existing, same, _ = _submit_v1(ledger.producer, 1, key="k")
    conflict, other, detail = _submit_v1(ledger.producer, 2, key="k")

    assert (created, existing, conflict) == ("created", "existing", "conflict")
    assert job == same == other
    assert detail["first_submitted_by"] == "plain SQL"
    assert _submit_v1(ledger.producer, kind="nobody")[0] == "unknown_type"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lane": 1}, "unknown option lane; known are deadline, id, needs, not_before, priority, tags, traceparent"),
        ({"priority": 1}, "priority 1 is none of high, normal and low"),
        ({"priority": "urgent"}, "priority urgent is none of high, normal and low"),
        ({"needs": {}}, "needs are of type object, not a list"),
        ({"needs": [{"kind": "near"}]}, NO_KIND),
        ({"needs": [{"kind": "has", "name": "GPU", "value": "a"}]}, NO_NAME),
        ({"tags": [1]}, "tags are not an object of texts"),
        ({"tags": "a"}, "tags are not an object of texts"),
        ({"tags": {"a": 1}}, "tags are not an object of texts"),
        ({"tags": {"a": None}}, "tags are not an object of texts"),
        ({"tags": {"a": {"b": "c"}}}, "tags are not an object of texts"),
        ({"deadline": "2020-01-01T00:00:00Z"}, "the deadline has passed"),
        ({"deadline": "infinity"}, "the deadline is more than a year ahead"),
        ({"not_before": "infinity"}, "not_before is more than a year ahead"),
    ],
)
def test_submit_v1__refuses_bad_options(ledger: Ledger, options: dict[str, Any], problem: str) -> None:
    ledger.producer.begin()
    verdict, job, detail = _submit_v1(ledger.producer, options=options)
    good, _, _ = _submit_v1(ledger.producer)
    ledger.producer.commit()

    assert (verdict, job, detail["problem"], good) == ("invalid", None, problem, "created")


def test_submit_v1__without_tags_or_with_null_ones_has_none(ledger: Ledger) -> None:
    _, job, _ = _submit_v1(ledger.producer, options={"tags": None})

    assert job is not None
    assert ledger.producer.record(job)["tags"] == {}


def test_submit_v1__has_no_payload_to_submit(ledger: Ledger) -> None:
    ((verdict, _, detail),) = ledger.producer.sql(
        "select * from brokerjobs.submit_v1(%s, 'work', null)", ledger.place.namespace
    )

    assert (verdict, detail) == ("invalid", {"problem": "the payload is missing"})


def _milliseconds(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
