"""Workers and coordinators that were told to say what they do: to a receiver, to Prometheus, and in lines of JSON."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import psycopg

from brokerjobs.servers.processes import free_port
from tests.telemetry.receiving import Receiver
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database


def test_worker__that_is_told_where_sends_what_it_did_before_it_ends(
    ready: Command, shop: str, database: Database, namespace: str
) -> None:
    ready.env |= {"BROKERJOBS_COORDINATOR__DATABASE_URL": database.coordinator_url, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
    worker = ("worker", shop, "--database-url", database.worker_url, "--name", "told")
    with Receiver() as receiver:
        to = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        with ready.running(*worker, said="is up", env=to) as running:
            ready("submit", f"{namespace}/add", '{"cents": 1}', "--wait").ok()
            assert receiver.spans() == []
            assert running.terminated() == 0, running.log()

        assert "process add" in {span.name for span in receiver.spans()}
        (who,) = {(one["service.name"], one["service.instance.id"]) for one in receiver.resources()}
    with psycopg.connect(database.admin_url) as connection:
        found = connection.execute("select id::text from brokerjobs.worker where name = 'told'").fetchall()
    assert [who] == [(namespace, worker_id) for (worker_id,) in found]


def test_worker_and_coordinator__without_variables_send_nothing(ready: Command, shop: str, database: Database) -> None:
    with Receiver() as receiver:
        worker = ("worker", shop, "--no-coordinator", "--database-url", database.worker_url)
        with ready.running(*worker, said="is up") as running:
            assert running.terminated() == 0, running.log()

        assert not receiver.asked.is_set()


def test_drain__does_not_wait_for_a_receiver_that_does_not_answer(
    ready: Command, shop: str, database: Database, namespace: str
) -> None:
    ready.env |= {"BROKERJOBS_COORDINATOR__DATABASE_URL": database.coordinator_url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    worker = ("worker", shop, "--database-url", database.worker_url)
    with Receiver() as receiver:
        receiver.may_answer.clear()
        to = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        with ready.running(*worker, said="is up", env=to) as running:
            ready("submit", f"{namespace}/add", '{"cents": 1}', "--wait").ok()
            assert receiver.asked.wait(20)

            assert running.terminated() == 0, running.log()
            assert "what was not sent within" in running.log()


def test_coordinator__serves_prometheus_by_its_setting_alone(ready: Command, database: Database) -> None:
    port = free_port()
    told = {"BROKERJOBS_TELEMETRY__METRICS_PORT": str(port)}
    with ready.running("coordinator", "--database-url", database.coordinator_url, said="is up", env=told) as running:
        # Of the monitor, which this coordinator is.
        eventually_sync(lambda: "brokerjobs_schema_version" in _scraped(port), 20)
        assert running.terminated() == 0, running.log()


def _scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def test_log_lines__are_json_if_that_is_wanted(ready: Command, shop: str, database: Database) -> None:
    as_json = {"BROKERJOBS_LOG__FORMAT": "json"}
    worker = ("worker", shop, "--no-coordinator", "--database-url", database.worker_url, "--name", "w")
    coordinator = ("coordinator", "--database-url", database.coordinator_url, "--name", "c")
    for name, command in (("w", worker), ("c", coordinator)):
        with ready.running(*command, said="is up", env=as_json) as running:
            assert running.terminated() == 0, running.log()
        lines = [json.loads(line) for line in running.log().splitlines()]
        assert {line["worker"] for line in lines} == {name}
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_log_lines__of_an_attempt_carry_its_event_and_ids(
    ready: Command, shop: str, database: Database, namespace: str
) -> None:
    ready.env |= {"BROKERJOBS_COORDINATOR__DATABASE_URL": database.coordinator_url, "BROKERJOBS_LOG__FORMAT": "json"}
    worker = ("worker", shop, "--database-url", database.worker_url)
    with Receiver() as receiver:
        with ready.running(*worker, said="is up", env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}) as running:
            job = ready("submit", f"{namespace}/refuse", '{"cents": 1}').ok().out.strip()
            eventually_sync(lambda: "attempt_failed" in running.log(), 20)
            assert running.terminated() == 0, running.log()

        (said,) = [
            line for line in map(json.loads, running.log().splitlines()) if line.get("event") == "attempt_failed"
        ]
        (span,) = [one for one in receiver.spans() if one.name == "process refuse"]
    assert (said["job_id"], said["job_type"], said["attempt"]) == (job, "refuse", 1)
    assert int(said["fencing_number"]) > 0
    assert said["trace_id"] == span.trace_id.hex()
