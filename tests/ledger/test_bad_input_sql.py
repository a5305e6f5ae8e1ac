"""What plain SQL hands to submit_v1: every refusal is a row that says what is wrong, and the transaction lives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import errors

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger

SUBMIT = "select verdict, job_id, detail ->> 'problem' from brokerjobs.submit_v1(%s, %s, %s::jsonb, %s, %s, %s::jsonb)"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

NO_ZONE = "has no time zone: end it with Z for UTC, or with an offset such as +02:00"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "100 levels": ({"payload": "[" * 100 + "]" * 100}, "the payload: it is nested deeper than 64 levels"),
    "6000 levels": ({"payload": '{"a":' * 6000 + "1" + "}" * 6000}, "the payload: it is nested deeper than 64 levels"),
    "digits": (
        {"payload": '{"a": "' + "9" * 5000 + '", "items": [1, {"price": -' + "9" * 100_000 + "}]}"},
        "the payload: the integer at items[1].price has more than 4300 digits",
    ),
    "an exponent": ({"payload": "[1e5000]"}, "the payload: the integer at [0] has more than 4300 digits"),
    "nothing but digits": ({"payload": "1" * 5000}, "the payload: the integer at top level has more than 4300 digits"),
    "20 MiB": (
        {"payload": '"' + "x" * 20 * 2**20 + '"'},
        "the payload is 20971522 bytes of JSON, 20709378 over the limit of 262144; keep large data in object storage",
    ),
    "an unknown type": ({"type": "refund"}, "does not know job type refund of namespace"),
    "no type": ({"type": None}, "does not know job type"),
    "a naive time": ({"options": {"not_before": "2030-01-01T00:00:00"}}, f"not_before 2030-01-01T00:00:00 {NO_ZONE}"),
    "a naive deadline": ({"options": {"deadline": "2030-01-01 00:00:00.5"}}, NO_ZONE),
    "a day": ({"options": {"deadline": "2030-01-01"}}, 'deadline 2030-01-01 is no time such as "2030-01-31T12:00:00Z"'),
    "a word": ({"options": {"not_before": "tomorrow"}}, "not_before tomorrow is no time such as"),
    "a number": ({"options": {"not_before": 1893456000}}, "not_before 1893456000 is no time such as"),
    "a month too many": ({"options": {"deadline": "2030-13-01T00:00:00Z"}}, "date/time field value out of range"),
    "no id": ({"options": {"id": "first"}}, 'invalid input syntax for type uuid: "first"'),
    "a list of options": ({"options": []}, "options are of type array, not an object"),
    "null for options": ({"options": "null"}, "options are of type string, not an object"),
    "deep tags": ({"options": '{"tags":' + "[" * 2000 + "]" * 2000 + "}"}, "tags are not an object of texts"),
    "an unknown option": ({"options": {"x" * 10**6: 1}}, "unknown option xxxxxxxx"),
    "nobody": ({"by": ""}, "submitted_by has 1 to 255 characters"),
    "a long name": ({"by": "x" * 10**6}, "submitted_by has 1 to 255 characters"),
    "an empty key": ({"key": ""}, "a key has 1 to 255 characters"),
    "a key of another payload": ({"key": "taken", "payload": "2"}, "key taken was first used by tester for job "),
}


def submit_v1(ledger: Ledger, given: dict[str, Any]) -> tuple[str, Any, str | None]:
    options = given.get("options", {})
    ((verdict, job, problem),) = ledger.producer.sql(
        SUBMIT,
        ledger.place.namespace,
        given.get("type", "work"),
        given.get("payload", "1"),
        given.get("key"),
        given.get("by", "tester"),
        options if isinstance(options, str) and options[0] == "{" else json.dumps(options),
    )
    return verdict, job, problem


def test_submit_v1__refuses_with_words_and_the_transaction_lives(ledger: Ledger) -> None:
    first = submit_v1(ledger, {"key": "taken"})[1]
    ledger.producer.begin()
    for what, (given, words) in BAD.items():
        verdict, job, problem = submit_v1(ledger, given)
        assert words in (problem or ""), (what, verdict, problem)
        assert len(problem or "") < 300, what
        assert (verdict, job) in {("invalid", None), ("unknown_type", None), ("conflict", first)}, what
    assert submit_v1(ledger, {})[0] == "created"
    ledger.producer.commit()

    assert ledger.owner.execute(
        "select count(*) from brokerjobs.job where namespace = %s", [ledger.place.namespace]
    ).fetchone() == (2,)


def test_submit_v1__says_that_a_key_is_in_flight(ledger: Ledger) -> None:
    holder = ledger.open("producer")
    holder.begin()
    holder.sql(SUBMIT, ledger.place.namespace, "work", "1", "held", "tester", "{}")

    assert submit_v1(ledger, {"key": "held"}) == (
        "key_in_flight",
        None,
        "key held is held by another open transaction; submit again when it has ended",
    )
    holder.rollback()


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ('"\\u0000"', errors.UntranslatableCharacter),
        ('"\\ud800"', errors.InvalidTextRepresentation),
        ("NaN", errors.InvalidTextRepresentation),
        ("[" * 100_000 + "]" * 100_000, errors.StatementTooComplex),
        ("9" * 200_000, errors.NumericValueOutOfRange),
    ],
)
def test_submit_v1__is_not_even_called_with_what_is_no_jsonb(
    ledger: Ledger, payload: str, error: type[Exception]
) -> None:
    """The caller's own cast fails, in his own statement: a savepoint keeps his transaction."""
    ledger.producer.begin()
    ledger.producer.sql("savepoint s")
    with pytest.raises(error):
        submit_v1(ledger, {"payload": payload})
    ledger.producer.sql("rollback to s")
    assert submit_v1(ledger, {})[0] == "created"
    ledger.producer.commit()


def test_submit_v1__takes_what_is_just_within_bounds(ledger: Ledger) -> None:
    for payload in ("[" * 64 + "]" * 64, '{"n": [' + "9" * 4300 + "]}", '"' + "9" * 5000 + '"', "1e-16000"):
        verdict, job, problem = submit_v1(ledger, {"payload": payload})
        assert verdict == "created", problem
        assert ledger.producer.record(job)["state"] == "queued"


def test_submit_v1__drops_a_trace_context_that_is_none(ledger: Ledger) -> None:
    for given, kept in ((TRACE, TRACE), ("x" * 10**6, None), (TRACE + "\n", None), (5, None)):
        _, job, _ = submit_v1(ledger, {"options": {"traceparent": given}})
        assert ledger.producer.record(job)["traceparent"] == kept
