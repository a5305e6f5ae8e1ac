"""Makes the dashboards of config/grafana/dashboards out of the catalogue of metrics.

    python -m config.grafana.generate

The files are committed: a test says so when they are not what this makes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.telemetry import attributes as a
from brokerjobs.telemetry import catalogue as c
from config.grafana.panels import Dashboard, Panel, Query, Row, Variable, dashboard_json, described
from config.grafana.queries import counted, highest, maximum, per_second, quantiles, rate, total

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parent / "dashboards"

_NAMESPACE: Final = Variable("namespace", "Namespace", c.JOB_COUNT.prometheus, "brokerjobs_namespace")
_TYPE: Final = Variable("type", "Job type", c.ATTEMPT_OUTCOMES.prometheus, "brokerjobs_job_type")
_APPLICATION: Final = Variable("application", "Application", c.SLOT_LIMIT.prometheus, "job")

_HERE: Final = {a.NAMESPACE: "$namespace"}
_OF_TYPE: Final = {a.JOB_TYPE: "$type"}
_OF_APPLICATION: Final = {"job": "$application"}
_QUEUE: Final = (a.NAMESPACE, a.QUEUE_NAME)


def _stat(title: str, metric: c.Metric, *, warn: float, where: Mapping[str, str] | None = _HERE) -> Panel:
    panel = highest(metric, title, (a.NAMESPACE,) if a.NAMESPACE in metric.attributes else (), where)
    return replace(panel, kind="stat", width=4, thresholds=(("orange", warn),))


def overview() -> Dashboard:
    """Is anything wrong, and where?"""
    now = Row(
        "Now",
        (
            _stat("Oldest waiting job", c.OLDEST_JOB, warn=60),
            _stat("Oldest review", c.REVIEWS_OLDEST, warn=3600),
            _stat("Failed jobs", c.DEAD_COUNT, warn=1),
            _stat("Overdue attempts", c.OVERDUE, warn=1),
            _stat("Oldest message in the outbox", c.OUTBOX_OLDEST, warn=30, where=None),
            _stat("Schema version", c.SCHEMA_VERSION, warn=1e9, where=None),
        ),
        height=4,
    )
    waiting = Panel(
        "Oldest job and objective",
        (
            Query(maximum(c.OLDEST_JOB, _QUEUE, _HERE), "{{brokerjobs_namespace}} {{brokerjobs_queue_name}}"),
            Query(maximum(c.LATENCY_OBJECTIVE, _QUEUE, _HERE), "objective of {{brokerjobs_queue_name}}"),
        ),
        "s",
        described(c.OLDEST_JOB, c.LATENCY_OBJECTIVE),
    )
    jobs = Row(
        "Jobs",
        (
            counted(c.JOB_COUNT, "Unfinished jobs", (a.JOB_STATE, a.JOB_WAITING), _HERE),
            waiting,
            quantiles(c.QUEUE_WAIT, "From claimable to claimed"),
            per_second(c.SUBMISSIONS, a.VERDICT),
            per_second(c.ATTEMPT_OUTCOMES, a.OUTCOME),
            quantiles(c.JOB_DURATION, "From submission to the end"),
        ),
    )
    people = Row(
        "Who is wanted",
        (
            highest(c.REVIEWS_PENDING, "Open reviews", (a.NAMESPACE,), _HERE),
            highest(c.DEAD_OLDEST, "Oldest failed job", (a.NAMESPACE,), _HERE),
            counted(c.UNPLACEABLE, "Jobs that no worker can run", (a.QUEUE_NAME, a.REASON), _HERE),
        ),
    )
    who = Row(
        "Processes",
        (
            highest(c.WORKER_COUNT, "Workers", (a.NAMESPACE, a.WORKER_STATE), _HERE),
            highest(c.SERVICE_AGE, "Since each service last did its work", (a.SERVICE,)),
            highest(c.OUTBOX_PENDING, "Messages in the outbox"),
        ),
    )
    about = "Is anything wrong, and where? The depth of a queue is shown, and no alert."
    return Dashboard("brokerjobs-overview", "brokerjobs: Overview", about, (now, jobs, people, who), (_NAMESPACE,))


def job_type() -> Dashboard:
    """What becomes of the jobs of a type?"""
    attempts = Row(
        "Attempts",
        (
            per_second(c.ATTEMPT_OUTCOMES, a.OUTCOME, _OF_TYPE),
            quantiles(c.ATTEMPT_DURATION, "From claim to end", _OF_TYPE),
            quantiles(c.PROCESS_DURATION, "In the handler", {a.DESTINATION_TEMPLATE: "$type"}),
        ),
    )
    jobs = Row(
        "Jobs",
        (
            per_second(c.SUBMISSIONS, a.VERDICT, _OF_TYPE),
            quantiles(c.QUEUE_WAIT, "From claimable to claimed", _OF_TYPE),
            quantiles(c.JOB_DURATION, "From submission to the end", _OF_TYPE),
        ),
    )
    troubles = Row(
        "What goes wrong",
        (
            per_second(c.RETRIES, a.ERROR_TYPE, _OF_TYPE),
            per_second(c.REJECTIONS, a.REASON, _OF_TYPE),
            per_second(c.REVIEW_OPENINGS, a.JOB_TYPE, _OF_TYPE),
            quantiles(c.LEASE_MARGIN, "Left of the lease at renewals", _OF_TYPE, of=(0.01, 0.1, 0.5)),
        ),
    )
    about = "What becomes of the jobs of a type, how long it takes, and why attempts fail."
    return Dashboard("brokerjobs-type", "brokerjobs: Job type", about, (attempts, jobs, troubles), (_TYPE,))


def worker() -> Dashboard:
    """Do workers keep up, and do they keep their leases?"""
    places = Panel(
        "Places for handlers",
        (
            Query(total(c.SLOT_USAGE, (a.POOL,), _OF_APPLICATION), "taken {{brokerjobs_pool}}"),
            Query(total(c.SLOT_LIMIT, (a.POOL,), _OF_APPLICATION), "of {{brokerjobs_pool}}"),
        ),
        "short",
        described(c.SLOT_USAGE, c.SLOT_LIMIT),
    )
    handlers = Row(
        "Handlers",
        (
            places,
            highest(c.LOOP_LAG, "Event loop lag", ("instance",), _OF_APPLICATION),
            highest(c.WORKER_COUNT, "Workers", (a.NAMESPACE, a.WORKER_STATE)),
        ),
    )
    leases = Row(
        "Leases",
        (
            per_second(c.RENEWALS, a.RESULT, _OF_APPLICATION),
            quantiles(c.LEASE_MARGIN, "Left of the lease at renewals", of=(0.01, 0.1, 0.5)),
            highest(c.OVERDUE, "Overdue attempts", (a.NAMESPACE,)),
        ),
    )
    calls = Panel(
        "Calls of the ledger",
        (Query(rate(c.LEDGER_DURATION, a.OPERATION).replace("_bucket", "_count"), "{{brokerjobs_ledger_operation}}"),),
        "ops",
        described(c.LEDGER_DURATION),
        stacked=True,
    )
    failed = Panel(
        "Calls of the ledger that failed",
        (
            Query(
                rate(c.LEDGER_DURATION, a.ERROR_TYPE, {a.ERROR_TYPE: ".+"}).replace("_bucket", "_count"),
                "{{error_type}}",
            ),
        ),
        "ops",
        described(c.LEDGER_DURATION),
    )
    ledger = Row("Ledger", (quantiles(c.LEDGER_DURATION, "Ledger operations"), calls, failed))
    offset = highest(c.CLOCK_OFFSET, "The ledger's clock less the worker's", ("instance",), _OF_APPLICATION)
    offset = replace(offset, least=None)
    deliveries = Row(
        "Deliveries",
        (
            highest(c.OLDEST_UNSETTLED, "Oldest unsettled delivery", (a.QUEUE_NAME,), _OF_APPLICATION),
            per_second(c.SETTLEMENTS, a.SETTLEMENT, _OF_APPLICATION),
            offset,
        ),
    )
    about = "Do workers keep up, do they keep their leases, and does the ledger answer them in time?"
    return Dashboard(
        "brokerjobs-worker",
        "brokerjobs: Worker and leases",
        about,
        (handlers, leases, ledger, deliveries),
        (_APPLICATION,),
    )


def outbox() -> Dashboard:
    """Do doorbells reach workers?"""
    out = Row(
        "Outbox",
        (
            highest(c.OUTBOX_PENDING, "Messages that wait"),
            highest(c.OUTBOX_OLDEST, "Oldest message"),
            per_second(c.PUBLICATIONS, a.RESULT),
        ),
    )
    messages = Row(
        "Messages",
        (
            per_second(c.SENT_MESSAGES, a.DESTINATION_NAME),
            per_second(c.CONSUMED_MESSAGES, a.DESTINATION_NAME),
            quantiles(c.CLIENT_OPERATION_DURATION, "Publishing until confirmed"),
        ),
    )
    said = "The broker's own figure, of the queues of brokerjobs: `{}`."
    names = ("messages_ready", "messages_unacked", "consumers")
    titles = ("Ready at the broker", "Unacknowledged", "Consumers")
    broker = Row(
        "RabbitMQ",
        tuple(
            Panel(
                title,
                (Query(f"max by (queue) (rabbitmq_detailed_queue_{name})", "{{queue}}"),),
                "short",
                said.format(f"rabbitmq_detailed_queue_{name}"),
            )
            for name, title in zip(names, titles, strict=True)
        ),
    )
    services = Row("Services", (highest(c.SERVICE_AGE, "Since each service last did its work", (a.SERVICE,)),))
    about = "Do doorbells leave the ledger, does the broker take them, and do workers acknowledge them?"
    return Dashboard("brokerjobs-outbox", "brokerjobs: Outbox and broker", about, (out, messages, broker, services))


def files() -> dict[str, str]:
    """Each file's name and text."""
    made = {
        "overview": overview(),
        "job-type": job_type(),
        "worker-and-leases": worker(),
        "outbox-and-broker": outbox(),
    }
    return {f"{name}.json": json.dumps(dashboard_json(one), indent=2) + "\n" for name, one in made.items()}


def main() -> None:
    """Writes the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
