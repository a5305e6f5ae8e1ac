"""Each check of the broker sees the fault that a test makes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import aiormq
import pytest

from brokerjobs.broker import names, removal, topology
from brokerjobs.cli.checkup import broker_checks
from brokerjobs.cli.checkup.findings import Level, exit_code
from brokerjobs.cli.failures import ExitCode
from brokerjobs.ledger import inspection

if TYPE_CHECKING:
    from tests.doctor.conftest import Patient

MINUTES = timedelta(minutes=1)


def test_queue__that_is_missing_fails(patient: Patient) -> None:
    asyncio.run(removal.remove(patient.broker_url, patient.route()))

    found = patient.examine().only("topology", "fail")

    assert found.message == f"not at the broker: {patient.route()}"
    assert found.next == "brokerjobs setup module:app, or a coordinator"
    assert found.code == ExitCode.SCHEMA
    assert asyncio.run(removal.message_count(patient.broker_url, patient.route())) is None  # looking made nothing


def test_exchange__that_is_missing_fails(patient: Patient) -> None:
    asyncio.run(_delete_exchange(patient.broker_url, names.dead_exchange(patient.namespace)))

    found = patient.examine().only("topology", "fail")

    assert found.message == f"not at the broker: {names.dead_exchange(patient.namespace)}"


def test_queue__with_other_arguments_fails_and_is_told_how_to_mend(patient: Patient) -> None:
    found = patient.examine(broker__delivery_limit=7).only("topology", "fail")

    assert found.message == f"{patient.route()} exists with x-delivery-limit = 20, wanted 7"
    assert found.next == f"brokerjobs setup module:app --recreate {patient.route()}"
    assert found.code == ExitCode.SCHEMA


def test_exchange__of_another_type_fails_and_is_told_how_to_mend(patient: Patient) -> None:
    exchange = names.quarantine_exchange(patient.namespace)
    asyncio.run(_delete_exchange(patient.broker_url, exchange))
    asyncio.run(_declare_exchange(patient.broker_url, exchange, "direct"))

    found = patient.examine().only("topology", "fail")

    assert found.message == f"{exchange} exists with type = 'direct', wanted 'fanout'"
    assert f"rabbitmqadmin delete exchange name={exchange}" in found.next


def test_every_queue_that_differs_is_told(patient: Patient) -> None:
    asyncio.run(topology.declare(patient.broker_url, topology.Topology(routes=frozenset({patient.route("other")}))))
    patient.register("other", queue="other")

    diagnosis = patient.examine(broker__delivery_limit=7)

    assert diagnosis.bad() == [("topology", "fail")] * 2
    assert exit_code(diagnosis.findings) == ExitCode.SCHEMA


def test_messages__in_quarantine_are_told(patient: Patient) -> None:
    asyncio.run(_publish(patient.broker_url, names.quarantine_exchange(patient.namespace)))

    found = patient.examine().only("quarantine", "warn")

    assert found.message == f"1 message lies in {names.quarantine_queue(patient.namespace)}"


def test_consumer_timeout__beyond_the_brokers_default_is_told_if_attempts_may_take_as_long(patient: Patient) -> None:
    patient.register("long", time_limit=timedelta(hours=1))
    assert patient.examine(broker__consumer_timeout="60m").bad() == []  # acknowledged when they are claimed

    found = patient.examine(broker__consumer_timeout="3h").only("consumer timeout", "warn")

    assert "broker.consumer_timeout is 3h; the broker's own consumer_timeout cannot be read" in found.message
    assert f"attempts of {patient.namespace}/long may lose their channel" in found.message
    assert "rabbitmqctl environment" in found.next


def test_consumer_timeout__says_what_it_cannot_read_and_what_is_acknowledged_early(patient: Patient) -> None:
    patient.register("long", time_limit=timedelta(hours=1))

    (found,) = [one for one in patient.examine().findings if one.check == "consumer timeout"]

    assert found.level is Level.OK
    assert "the broker's own consumer_timeout cannot be read (30 min unless it was changed)" in found.message
    assert f"acknowledged when they are claimed: {patient.namespace}/long" in found.message


def test_consumer_timeout__of_a_policy_below_the_setting_is_told(patient: Patient) -> None:
    """RabbitMQ has such policies from 3.12 on; tests/broker/test_inspection.py reads one where it has them."""
    patient.register("work", time_limit=12 * MINUTES)
    (row,) = patient.fetch(inspection.look(), "reader")
    policies = {patient.route(): 10 * MINUTES}

    (found,) = broker_checks.consumer_timeout(30 * MINUTES, row.look(), policies)

    assert found.level is Level.WARN
    assert f"a policy gives {patient.route()} only 10m: attempts of {patient.namespace}/work may lose" in found.message
    assert found.next == "set broker.consumer_timeout = '10m', or raise the policy"
    (well,) = broker_checks.consumer_timeout(10 * MINUTES, row.look(), policies)
    assert well.level is Level.OK


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://u:s3cret@127.0.0.1:1/x"])
def test_management_api__that_is_away_is_told_and_hides_nothing_else(patient: Patient, url: str) -> None:
    found = patient.examine(broker__management_url=url).only("consumer timeout", "warn")
    assert "--management-url" in found.next

    assert "127.0.0.1:1" in found.message
    assert "s3cret" not in found.message


async def _delete_exchange(url: str, name: str) -> None:
    connection = await aiormq.connect(url)
    await (await connection.channel()).exchange_delete(name)
    await connection.close()


async def _declare_exchange(url: str, name: str, kind: str) -> None:
    connection = await aiormq.connect(url)
    await (await connection.channel()).exchange_declare(name, exchange_type=kind, durable=True)
    await connection.close()


async def _publish(url: str, exchange: str) -> None:
    connection = await aiormq.connect(url)
    channel = await connection.channel(publisher_confirms=True)
    await channel.basic_publish(b"?", exchange=exchange)
    await connection.close()
