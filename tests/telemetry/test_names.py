"""One vocabulary: what is said in one place is said in all."""

from __future__ import annotations

import logging
import re

from brokerjobs.ledger import schema
from brokerjobs.rules import reviews, states
from brokerjobs.rules.verdicts import ReportVerdict
from brokerjobs.telemetry import attributes, logs, names
from brokerjobs.telemetry.catalogue import METRICS, Instrument
from brokerjobs.telemetry.outcomes import Outcome, outcome_of
from tests.telemetry.page import PAGE, asked_for, filled, tables
from tests.unit.test_docs import event_kinds


def test_the_reference_page__is_what_the_names_say() -> None:
    text = PAGE.read_text()

    assert text == filled(text), "put its tables in anew: python -m tests.telemetry.page"
    assert sorted(asked_for(text)) == sorted(tables())
    assert f"version {names.CONVENTIONS} (`{names.SCHEMA_URL}`)" in " ".join(text.split())


def test_events__are_those_of_the_ledger_and_the_local_ones() -> None:
    written = {kind for text in schema.functions().values() for kind in event_kinds(text)}

    assert {event.value for event in names.Event} - set(names.LOCAL) == written
    assert not written & set(names.LOCAL)
    assert names.Event(reviews.OPENED) is names.Event.REVIEW_OPENED


def test_attributes__of_metrics_and_constants_are_all_described_and_once() -> None:
    described = [attribute.name for attribute in names.ATTRIBUTES]
    constants = {
        value
        for name, value in vars(attributes).items()
        if name.isupper() and isinstance(value, str) and value not in {attributes.RABBITMQ, attributes.OTHER}
    }

    assert len(described) == len(set(described))
    assert set(described) == constants
    assert {name for metric in METRICS for name in metric.attributes} <= constants
    assert not {name for metric in METRICS for name in metric.attributes if name.endswith(".id")}


def test_metrics__are_named_by_the_rules() -> None:
    """No `_total`, no unit, dots and lower case; durations are histograms or gauges in seconds."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len({metric.prometheus for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"(brokerjobs|messaging)(\.[a-z][a-z_]*)+", metric.name), metric.name
        assert not re.search(r"total|seconds|bytes|count$", metric.name.removesuffix(".count")), metric.name
        assert re.fullmatch(r"s|\{[a-z]+\}", metric.unit), metric.name
        assert metric.description.endswith("."), metric.name
        assert (metric.instrument is Instrument.HISTOGRAM) == bool(metric.buckets), metric.name


def test_buckets__are_floats_that_rise_and_reach_beyond_the_longest_default() -> None:
    """An integer bound would be another series in Prometheus: `le="30"` beside `le="30.0"`."""
    for metric in METRICS:
        assert all(type(bound) is float for bound in metric.buckets), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name


def test_outcomes__have_a_meaning_each() -> None:
    assert set(names.MEANINGS) == set(Outcome)
    assert set(Outcome) >= names.ERRORS


def test_outcomes__of_every_answer_of_the_ledger() -> None:
    seen: dict[tuple[str, str, str, bool], Outcome] = {
        (said, verdict, state, late): outcome_of(said, verdict, state, late=late)
        for said in states.ReportAs
        for verdict in ReportVerdict
        for state in states.JobState
        for late in (False, True)
    }

    for (said, verdict, state, late), outcome in seen.items():
        if verdict == "accepted":
            assert outcome is Outcome.ACCEPTED
        elif verdict != "recorded":
            assert outcome is Outcome.REJECTED
        elif late:
            assert outcome is Outcome.TIMED_OUT
        elif state == "queued":
            assert outcome is (Outcome.RELEASED if said == "released" else Outcome.RETRY)
        else:
            expected = {"review": Outcome.REVIEW, "cancelled": Outcome.CANCELLED}
            assert outcome is expected.get(state, Outcome.FAILED)


def test_log_fields__are_no_attributes_of_records_that_logging_refuses() -> None:
    """`extra=` with such a name raises KeyError in somebody's handler."""
    refused = {"message", "asctime"} | set(vars(logging.makeLogRecord({})))

    assert {"job_id", "event", "attempt", "worker"} <= set(logs.FIELDS)
    assert not (set(logs.FIELDS) - {"message"}) & refused
