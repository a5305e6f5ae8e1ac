"""A handler's child process: sets its own provider up, makes a span as a user would, and flushes."""

from __future__ import annotations

import logging
import sys
from typing import NamedTuple

from opentelemetry import trace

from brokerjobs import telemetry
from brokerjobs.telemetry import logs
from brokerjobs.telemetry.attaching import in_child
from tests.telemetry import subjects


class Told(NamedTuple):
    """What the worker tells its child."""

    traceparent: str | None
    tracestate: str | None = None


def work(told: Told) -> None:
    assert telemetry.configure(service_name="child", with_metrics=False)
    logging.root.addHandler(logs.handler(logs.Form.JSON, "worker-a", sys.stdout))
    attempt = in_child(subjects.claim(2), told.traceparent, told.tracestate)
    with attempt, trace.get_tracer("users").start_as_current_span("GET https://bank.example"):
        logging.getLogger("users").warning("the bank is slow")
    logging.getLogger("users").warning("outside")
    assert telemetry.flush(10.0)


if __name__ == "__main__":
    work(Told(sys.argv[1], sys.argv[2] or None))
