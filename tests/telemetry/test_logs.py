"""Log lines: one a record, with the trace and the attempt that they belong to, and without secrets."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from brokerjobs.rules import reviews
from brokerjobs.rules.secrets import OwnSecrets
from brokerjobs.telemetry.attaching import entered
from brokerjobs.telemetry.logs import FIELDS, Form, handler
from tests.telemetry import subjects

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Lines:
    """A logger, and what it has written in both forms."""

    def __init__(self) -> None:
        self.log = logging.Logger("users.bank")  # noqa: LOG001  # it ends with the test
        self._streams = {form: io.StringIO() for form in Form}
        for form, stream in self._streams.items():
            self.log.addHandler(handler(form, "worker-a", stream))

    @property
    def text(self) -> list[str]:
        return self._lines(Form.TEXT)

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines(Form.JSON)]

    @property
    def raw(self) -> str:
        return "".join(stream.getvalue() for stream in self._streams.values())

    def _lines(self, form: Form) -> list[str]:
        lines = self._streams[form].getvalue().split("\n")
        assert lines.pop() == ""
        return lines


@pytest.fixture
def lines() -> Lines:
    return Lines()


def test_a_line_of_a_handler__says_its_trace_and_its_attempt(provider: TracerProvider, lines: Lines) -> None:
    claimed = subjects.claim(2)
    span = subjects.worker().process(claimed, subjects.delivery())
    context = entered(contextvars.copy_context(), claimed, span.context)
    context.run(lines.log.warning, "the bank is %s", "slow")
    current = context.run(trace.get_current_span).get_span_context()

    [line] = lines.json
    assert list(line) == [name for name in FIELDS if name != "event"]
    assert _TIME.fullmatch(line.pop("time"))
    assert line == {
        "level": "WARNING",
        "logger": "users.bank",
        "message": "the bank is slow",
        "trace_id": f"{current.trace_id:032x}",
        "span_id": f"{current.span_id:016x}",
        "trace_flags": f"{current.trace_flags:02x}",
        "job_id": str(subjects.JOB),
        "job_type": "payment.charge",
        "attempt_id": str(subjects.ATTEMPTS[2]),
        "attempt": 2,
        "fencing_number": "1700000000002",
        "worker": "worker-a",
    }
    [text] = lines.text
    assert re.fullmatch(
        rf"{_TIME.pattern} WARNING users\.bank: the bank is slow \[job_id={subjects.JOB} attempt=2 "
        r"fencing_number=1700000000002 trace_id=[0-9a-f]{32}\]",
        text,
    )


def test_a_line_of_nobody__says_neither(lines: Lines) -> None:
    lines.log.info("up")

    [line] = lines.json
    assert list(line) == ["time", "level", "logger", "message", "worker"]
    assert re.fullmatch(rf"{_TIME.pattern} INFO    users\.bank: up", lines.text[0])


def test_a_line_about_another_job__is_not_given_this_attempts_facts(lines: Lines) -> None:
    other = str(subjects.ATTEMPTS[5])
    claimed = subjects.claim()
    context = entered(contextvars.copy_context(), claimed, None)
    context.run(lambda: lines.log.info("submitted", extra={"job_id": other}))

    [line] = lines.json
    assert line["job_id"] == other
    assert "attempt" not in line
    assert "job_type" not in line


def test_an_opened_review__has_its_event_and_its_facts(lines: Lines) -> None:
    opening = {
        "job": str(subjects.JOB),
        "attempt": str(subjects.ATTEMPTS[1]),
        "number": 1,
        "review": "r-1",
        "namespace": "payments",
        "type": "payment.charge",
        "ended": "lease_expired",
    }
    reviews.tell(lines.log, opening)

    [line] = lines.json
    assert (line["event"], line["review_id"], line["namespace"]) == ("review_opened", "r-1", "payments")
    assert (line["job_id"], line["attempt_id"]) == (str(subjects.JOB), str(subjects.ATTEMPTS[1]))


def test_an_exception__is_on_the_same_line(lines: Lines) -> None:
    def charge() -> None:
        raise ConnectionError("no route\nto the bank")

    try:
        charge()
    except ConnectionError:
        lines.log.exception("cannot charge")

    [line] = lines.json
    assert (line["error_type"], line["error"]) == ("ConnectionError", "no route\nto the bank")
    assert line["traceback"].startswith("Traceback")
    [text] = lines.text
    assert re.search(r"cannot charge \| ConnectionError: no route\\nto the bank \(test_logs\.py:\d+\)$", text)


@pytest.mark.parametrize(
    ("message", "added"),
    [
        ("amqp://u:s3cr3tword@h/", {}),
        ("x", {"password": "s3cr3tword"}),
        ("x", {"api_key": "s3cr3tword"}),
        ("x", {"url": "amqp://u:s3cr3tword@h/"}),
        ("x", {"job_id": "token=s3cr3tword"}),
        ("x", {"sent": {"password": "s3cr3tword"}}),
    ],
)
def test_secrets__are_in_no_line(lines: Lines, message: str, added: dict[str, Any]) -> None:
    lines.log.info(message, extra=added, exc_info=ValueError("password=s3cr3tword"))

    assert "s3cr3tword" not in lines.raw
    assert len(lines.json) == len(lines.text) == 1


def test_this_process_own_secrets__are_in_no_line(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnSecrets()
    own.hide(["h3adert0ken"])
    monkeypatch.setattr("brokerjobs.rules.secrets.own", own)
    lines.log.info("sent h3adert0ken", extra={"sent": "h3adert0ken"})

    assert "h3adert0ken" not in lines.raw


def test_hostile_texts__stay_on_one_line(lines: Lines) -> None:
    hostile = "first\nsecond\u2028third \x1b[2J \u202egnp.exe \x00 \ud800"
    lines.log.warning(hostile, extra={"tag": hostile, "number": 2**60, "small": 7, "nothing": None, "yes": True})

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800]", lines.raw)
    [line] = lines.json
    assert line["message"].startswith("first\nsecond\u2028third")
    assert (line["number"], line["small"], line["nothing"], line["yes"]) == (str(2**60), 7, None, True)
    assert len(lines.text) == 1


def test_what_a_logger_adds__is_bounded(lines: Lines) -> None:
    lines.log.info("x" * 20_000, extra={f"fact_{number}": "y" * 20_000 for number in range(100)})

    [line] = lines.json
    assert len(line["message"]) <= 4_000
    assert len(line) <= 5 + 32
    assert len(json.dumps(line)) < 200_000
