"""One server away, both, a login refused, nothing set: said in words, with the rest, and without a password."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from brokerjobs.cli.checkup.findings import exit_code
from brokerjobs.cli.failures import ExitCode
from brokerjobs.ledger import inspection
from tests.cli.command import Command
from tests.cli.urls import AWAY_BROKER, AWAY_DATABASE, with_login

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doctor.conftest import Patient


@pytest.fixture
def brokerjobs(patient: Patient, tmp_path: Path) -> Command:
    """Commands in the folder of the test, with a reader's login."""
    env = {"BROKERJOBS_DATABASE_URL": patient.database.reader_url, "BROKERJOBS_BROKER_URL": patient.broker_url}
    return Command(tmp_path, {"NO_COLOR": "1", **env})


def test_database__that_is_away_hides_the_ledger_and_not_the_broker(patient: Patient) -> None:
    diagnosis = patient.examine(database_url=AWAY_DATABASE)

    assert diagnosis.bad() == [("database", "fail"), ("topology", "warn")]
    assert "pg_isready" in diagnosis.findings[0].next
    assert "not compared: the ledger says which queues there shall be" in diagnosis.findings[1].message
    assert "RabbitMQ " in diagnosis.text()
    assert "s3cret" not in diagnosis.text()
    assert exit_code(diagnosis.findings) == ExitCode.UNREACHABLE


def test_broker__that_is_away_hides_itself_alone(patient: Patient) -> None:
    found = patient.examine(broker_url=AWAY_BROKER).only("broker", "fail")

    assert "cannot be reached" in found.message
    assert "s3cret" not in f"{found}"
    assert found.code == ExitCode.UNREACHABLE


def test_both_away__are_both_told(patient: Patient) -> None:
    diagnosis = patient.examine(database_url=AWAY_DATABASE, broker_url=AWAY_BROKER)

    assert diagnosis.bad() == [("database", "fail"), ("broker", "fail")]
    assert "s3cret" not in diagnosis.text()


def test_nothing_set__is_told_for_each(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = patient.examine(database_url=None, broker_url=None)

    assert diagnosis.bad() == [("database", "fail"), ("broker", "fail")]
    assert "database_url is not set" in diagnosis.findings[0].message
    assert exit_code(diagnosis.findings) == ExitCode.CONFIGURATION


def test_logins__that_are_refused_fail(patient: Patient) -> None:
    diagnosis = patient.examine(
        database_url=with_login(patient.database.reader_url, "brokerjobs_test_reader:s3cret"),
        broker_url=with_login(patient.broker_url, "nobody:s3cret"),
    )

    assert diagnosis.bad() == [("database", "fail"), ("broker", "fail")]
    assert exit_code(diagnosis.findings) == ExitCode.PERMISSION
    assert "s3cret" not in diagnosis.text()


def test_login__that_was_granted_nothing_is_told_what_to_ask_for(patient: Patient) -> None:
    patient.sql("revoke execute on function brokerjobs.doctor from brokerjobs_reader")
    diagnosis = patient.examine()

    assert diagnosis.bad()[0] == ("schema", "fail")
    assert diagnosis.findings[0].next.startswith("brokerjobs setup --grant reader=LOGIN")
    assert exit_code(diagnosis.findings) == ExitCode.PERMISSION


def test_fault_of_our_own__is_a_finding_and_no_traceback(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: inspection.Looked) -> inspection.LedgerLook:
        raise KeyError("clock")

    monkeypatch.setattr(inspection.Looked, "look", broken)
    diagnosis = patient.examine()

    assert diagnosis.findings[0].message == "unexpected KeyError: 'clock'"
    assert exit_code(diagnosis.findings) == ExitCode.UNEXPECTED


# The command itself.


def test_command__prints_one_line_a_finding_worst_first(brokerjobs: Command, patient: Patient) -> None:
    well = brokerjobs("doctor")
    assert (well.code, well.err) == (0, "")
    assert all(line.startswith("ok    ") for line in well.out.splitlines())

    patient.submit(rung=True)
    patient.sql("update brokerjobs.worker set state = 'stopped'")
    ill = brokerjobs("doctor", "--broker-url", AWAY_BROKER)

    assert ill.code == 4
    levels = [line.split()[0] for line in ill.out.splitlines()]
    assert levels == sorted(levels, key=["fail", "warn", "ok"].index)
    assert ill.out.splitlines()[0].startswith("fail  broker")
    assert "; next: rabbitmqctl ping" in ill.out.splitlines()[0]
    assert ill.out.splitlines()[1].startswith("warn  workers")
    assert "s3cret" not in ill.out


def test_command__gives_json_with_the_exit_code(brokerjobs: Command) -> None:
    done = brokerjobs("doctor", "-o", "json", "--database-url", AWAY_DATABASE)
    (line,) = done.out.splitlines()
    said = json.loads(line)

    assert (said["schema"], said["exit_code"], done.code) == ("brokerjobs.doctor/1", 4, 4)
    first = said["findings"][0]
    assert (first["check"], first["level"]) == ("database", "fail")
    assert first["next"].startswith("pg_isready")
    assert {tuple(one) for one in said["findings"]} == {("check", "level", "message", "next")}


def test_command__with_wrong_settings_ends_as_every_other(brokerjobs: Command) -> None:
    brokerjobs("doctor", "--broker-url", "http://mq").fails(3, "must start with amqp://")


def test_broker__is_looked_at_with_the_coordinators_login_if_it_has_one(brokerjobs: Command) -> None:
    own = {
        "BROKERJOBS_BROKER_URL": AWAY_BROKER,
        "BROKERJOBS_COORDINATOR__BROKER_URL": brokerjobs.env["BROKERJOBS_BROKER_URL"],
    }

    assert brokerjobs("doctor", env=own).code == 0
    assert brokerjobs("doctor", "--broker-url", AWAY_BROKER, env=own).code == 4
