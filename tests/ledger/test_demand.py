"""What an autoscaler is told of a queue: how many of its jobs run or could be claimed now, by workers of a kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
import yaml
from psycopg.types.json import Jsonb

from brokerjobs import needs
from brokerjobs.ledger import pauses, queues, schema
from brokerjobs.ledger.decisions import Request
from tests.ledger.ledger_caller import new_job
from tests.ledger.needing import beat, needing

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger

A100 = needs.equal("gpu", "a100")
WITH_A100 = {"gpu": ["a100"]}
WITHOUT = {"os": ["linux"]}


def demand(ledger: Ledger, queue: str = "default", capabilities: Any = None) -> int:
    given = None if capabilities is None else Jsonb(capabilities)
    ((jobs,),) = ledger.open("reader").sql(
        "select brokerjobs.demand_v1(%s, %s, %s)", ledger.place.namespace, queue, given
    )
    assert isinstance(jobs, int)
    return jobs


def request() -> Request:
    return Request(id=uuid4(), by="ann", reason="the disk is full")


def bounded(ledger: Ledger, looks: int) -> None:
    """Lets the function look at so many rows instead of 100 000."""
    body = schema.functions()["demand_v1"]
    assert body.count("100000") == 3
    with ledger.owner.transaction():
        ledger.owner.execute("set local search_path = brokerjobs, pg_temp")
        ledger.owner.execute(body.replace("100000", str(looks)).encode())


def test_demand__is_what_runs_and_what_could_be_claimed(ledger: Ledger) -> None:
    assert demand(ledger) == 0
    jobs = [ledger.submit() for _ in range(4)]
    assert demand(ledger) == 4

    first, second, third = (ledger.worker.take(job) for job in jobs[:3])
    assert demand(ledger) == 4
    ledger.worker.complete(first)
    ledger.worker.fail(second)  # tried again later
    assert demand(ledger) == 2
    ledger.ring_again(second.job_id)
    assert demand(ledger) == 3
    ledger.producer.cancel(jobs[3])
    ledger.worker.complete(third)
    assert demand(ledger) == 1


def test_demand__is_without_jobs_that_wait_for_a_time_or_a_resource(ledger: Ledger) -> None:
    ledger.submit(not_before=timedelta(hours=1))
    holder, waiter = needing(ledger, "account"), needing(ledger, "account")
    held = ledger.worker.take(holder)
    assert ledger.worker.claim(waiter).verdict != "granted"
    assert ledger.rows.state(waiter).waiting == "resource"
    assert demand(ledger) == 1

    ledger.worker.complete(held)
    ledger.coordinator.due()
    assert (ledger.rows.state(waiter).waiting, demand(ledger)) == ("delivery", 1)


def test_demand__is_without_jobs_in_review(ledger: Ledger) -> None:
    begun = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(begun)
    assert demand(ledger) == 1

    ledger.lose(begun)
    assert (ledger.rows.state(begun.job_id).state, demand(ledger)) == ("review", 0)


def test_demand__of_a_paused_queue_is_what_still_runs(ledger: Ledger) -> None:
    running = ledger.submit()
    ledger.submit()
    ledger.worker.take(running)

    ledger.operator.fetch(queues.pause_queue(ledger.place.namespace, "default", request(), None))
    assert demand(ledger) == 1

    ledger.operator.fetch(queues.resume_queue(ledger.place.namespace, "default", request()))
    assert demand(ledger) == 2


def test_demand__is_without_queued_jobs_of_paused_types(ledger: Ledger) -> None:
    ledger.submit()
    ledger.submit("once")
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "once", request()))

    assert demand(ledger) == 1


def test_demand__is_that_of_one_queue_with_all_its_lanes(ledger: Ledger) -> None:
    ledger.declare("other", queue="mail")
    ledger.submit_all([new_job(), replace(new_job(), priority="high"), replace(new_job(), priority="low")])
    ledger.submit("other")

    assert (demand(ledger), demand(ledger, "mail")) == (3, 1)


def test_demand__of_capabilities_is_what_they_are_enough_for(ledger: Ledger) -> None:
    ledger.declare("render", needs=[A100, needs.at_least("memory", "16GiB")])
    ledger.submit("render")
    ledger.submit()
    large = {**WITH_A100, "memory": ["32GiB"], "": {"memory": {"amount": 32 * 2**30, "unit": "B"}}}

    assert demand(ledger) == 2
    assert demand(ledger, capabilities=WITHOUT) == 1
    assert demand(ledger, capabilities=WITH_A100) == 1
    assert demand(ledger, capabilities=large) == 2


def test_demand__has_what_others_refused_and_these_capabilities_are_enough_for(ledger: Ledger) -> None:
    job = needing(ledger, A100)
    assert demand(ledger, capabilities=WITHOUT) == 0
    beat(ledger, ledger.worker, capabilities=WITHOUT)
    ledger.worker.claim(job)
    assert ledger.rows.state(job).waiting == "placement"

    assert demand(ledger) == 0
    assert demand(ledger, capabilities=WITHOUT) == 0
    assert demand(ledger, capabilities=WITH_A100) == 1


def test_demand__has_what_a_worker_without_its_handler_refused_only_for_workers_that_are_known(ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.worker.claim(job, types=["once"])
    assert ledger.rows.state(job).waiting == "placement"

    assert demand(ledger) == 0
    assert demand(ledger, capabilities=WITHOUT) == 1


def test_demand__of_capabilities_is_without_jobs_that_wait_for_a_time(ledger: Ledger) -> None:
    ledger.submit(not_before=timedelta(hours=1))
    failed = ledger.worker.take(ledger.submit())
    ledger.worker.fail(failed)

    assert demand(ledger, capabilities=WITHOUT) == 0


def test_demand__of_a_queue_that_nobody_knows_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="knows no queue mial of namespace") as caught:
        demand(ledger, "mial")

    assert "brokerjobs queues list" in (caught.value.diag.message_hint or "")


def test_demand__behind_a_backlog_that_is_not_looked_through_is_never_nothing(own_ledger: Ledger) -> None:
    own_ledger.declare("other", queue="mail")
    own_ledger.submit_all([new_job() for _ in range(3)])
    bounded(own_ledger, looks=3)
    assert demand(own_ledger, "mail") == 0

    own_ledger.submit("other")
    assert (demand(own_ledger), demand(own_ledger, "mail")) == (3, 1)
    own_ledger.submit("other")
    assert demand(own_ledger, "mail") == 1


def test_demand__is_what_the_scaled_object_of_kubernetes_asks(ledger: Ledger) -> None:
    file = Path(__file__).parents[2] / "config/kubernetes/scaled-object.yaml"
    scaled = next(yaml.safe_load_all(file.read_text()))
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    ledger.submit()
    assert query.count("'shop'") == 1

    asked = ledger.open("reader").connection.execute(query.replace("'shop'", f"'{ledger.place.namespace}'"))
    assert asked.fetchall() == [(1,)]


@pytest.mark.parametrize("kind", ["producer", "worker", "coordinator"])
def test_demand__is_for_those_who_look(ledger: Ledger, kind: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledger.open(kind).sql("select brokerjobs.demand_v1(%s, 'default')", ledger.place.namespace)
