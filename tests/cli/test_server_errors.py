"""Servers that are away, refuse the login, or are not set up: the exit code says which, the message what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.cli import failures
from brokerjobs.ledger.database import unavailable
from tests.cli.urls import AWAY_BROKER, AWAY_DATABASE, with_login, with_path

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database

JOB = "01890a5d-ac96-774b-bcce-b302099a8057"
ASKING = (
    ("jobs", "show", JOB),
    ("jobs", "list"),
    ("jobs", "cancel", JOB, "--reason", "r"),
    ("submit", "ns/add", "1"),
)


@pytest.mark.parametrize("args", ASKING, ids=lambda args: " ".join(args[:2]))
def test_database__that_is_away_is_exit_code_4(offline: Command, args: tuple[str, ...]) -> None:
    said = offline(*args, "--database-url", AWAY_DATABASE).fails(4, "no answer", "pg_isready")

    assert "s3cret" not in said


@pytest.mark.parametrize("command", ["setup", "worker", "coordinator"])
def test_database__that_is_away_ends_every_program_with_exit_code_4(
    offline: Command, shop: str, broker_url: str, command: str
) -> None:
    args = [command] if command == "coordinator" else [command, shop]
    done = offline.process(*args, "--database-url", AWAY_DATABASE, "--broker-url", broker_url)

    assert done.code == 4, done
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1].startswith("next: pg_isready")


@pytest.mark.parametrize("args", ASKING, ids=lambda args: " ".join(args[:2]))
def test_database_login__that_is_refused_is_exit_code_9(
    offline: Command, database: Database, args: tuple[str, ...]
) -> None:
    url = with_login(database.producer_url, "brokerjobs_test_producer:s3cret")

    assert "s3cret" not in offline(*args, "--database-url", url).fails(
        9, "refused the login", "password authentication failed", "psql"
    )


def test_database_login__that_is_refused_ends_a_worker(
    offline: Command, database: Database, shop: str, broker_url: str
) -> None:
    url = with_login(database.worker_url, "nobody_knows:s3cret")
    done = offline.process("worker", shop, "--database-url", url, "--broker-url", broker_url)

    assert done.code == 9, done
    assert "Traceback" not in done.err
    assert "s3cret" not in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ('FATAL:  password authentication failed for user "u"', failures.ExitCode.PERMISSION),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "u"', failures.ExitCode.PERMISSION),
        ('FATAL:  role "u" does not exist', failures.ExitCode.PERMISSION),
        ('FATAL:  role "u" is not permitted to log in', failures.ExitCode.PERMISSION),
        ('FATAL:  permission denied for database "d"', failures.ExitCode.PERMISSION),
        ("fe_sendauth: no password supplied", failures.ExitCode.PERMISSION),
        ("FATAL:  the database system is starting up", failures.ExitCode.UNREACHABLE),
        ("Connection refused", failures.ExitCode.UNREACHABLE),
    ],
)
def test_refused_connection__is_told_from_a_server_that_is_away(words: str, code: failures.ExitCode) -> None:
    error = unavailable(psycopg.OperationalError(f"connection failed:\n{words}\nAll attempts failed"))

    assert error is not None
    assert failures.complaint_of(error).code is code
    assert (words in str(error)) == (code is failures.ExitCode.PERMISSION)


def test_database__that_does_not_exist_is_said(offline: Command, database: Database) -> None:
    url = with_path(database.producer_url, "/nowhere")

    offline("jobs", "list", "--database-url", url).fails(4, 'database "nowhere" does not exist', "createdb")


@pytest.mark.parametrize("args", ASKING, ids=lambda args: " ".join(args[:2]))
def test_schema__that_is_missing_is_exit_code_5(
    offline: Command, blank_database: Database, args: tuple[str, ...]
) -> None:
    url = blank_database.owner_url

    offline(*args, "--database-url", url).fails(5, "schema is missing", "\nnext: brokerjobs setup")


@pytest.mark.parametrize("command", ["worker", "coordinator"])
def test_schema__that_is_missing_ends_a_program(
    offline: Command, blank_database: Database, shop: str, broker_url: str, command: str
) -> None:
    args = [command] if command == "coordinator" else [command, shop]
    url = blank_database.owner_url
    done = offline.process(*args, "--database-url", url, "--broker-url", broker_url)

    assert done.code == 5, done
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1] == "next: brokerjobs setup"


def test_login__that_may_not_do_this_is_exit_code_9(ready: Command, database: Database, namespace: str) -> None:
    job = ready("submit", f"{namespace}/add", '{"cents": 1}').ok().out.strip()

    reader, worker = database.reader_url, database.worker_url
    ready("jobs", "cancel", job, "--reason", "r", "--database-url", reader).fails(9, "--grant producer=LOGIN")
    ready("submit", f"{namespace}/add", "1", "--database-url", reader).fails(9, "--grant producer=LOGIN")
    ready("jobs", "list", "--database-url", worker).fails(9, "--grant reader=LOGIN")
    ready("setup", "--database-url", reader).fails(9, "with the login that owns the ledger")


def test_worker__whose_login_is_a_readers_is_told_what_to_ask_for(
    ready: Command, database: Database, shop: str
) -> None:
    done = ready.process("worker", shop, "--no-coordinator", "--database-url", database.reader_url)

    assert done.code == 9, done
    assert "--grant worker=LOGIN" in done.err


def test_coordinator__that_may_run_no_service_is_exit_code_9(brokerjobs: Command, database: Database) -> None:
    done = brokerjobs.process("coordinator", env={"BROKERJOBS_DATABASE_URL": database.reader_url})

    assert done.code == 9, done
    assert "--grant coordinator=LOGIN" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", ["setup", "worker", "coordinator"])
def test_broker_login__that_is_refused_is_exit_code_9(
    ready: Command, database: Database, shop: str, broker_url: str, command: str
) -> None:
    database_url = {"setup": database.owner_url, "worker": database.worker_url}.get(command, database.coordinator_url)
    args = [command] if command == "coordinator" else [command, shop]
    for url, words in (
        (with_login(broker_url, "guest:s3cret"), "refused the login"),
        (with_path(broker_url, "/nowhere"), "virtual host"),
    ):
        done = ready.process(*args, "--database-url", database_url, "--broker-url", url)

        assert done.code == 9, done
        assert "Traceback" not in done.err
        assert words in done.err
        assert ("authenticate_user" if "refused" in words else "list_permissions") in done.err
        assert "s3cret" not in done.err


def test_broker__that_is_away_ends_setup_with_exit_code_4(
    brokerjobs: Command, as_owner: dict[str, str], shop: str
) -> None:
    done = brokerjobs("setup", shop, "--broker-url", AWAY_BROKER, env=as_owner)

    said = done.fails(4, "cannot be reached", "rabbitmqctl ping")
    assert "s3cret" not in said


def test_broker__that_is_away_is_waited_for_by_a_worker(ready: Command, database: Database, shop: str) -> None:
    args = ("worker", shop, "--no-coordinator", "--broker-url", AWAY_BROKER, "--database-url", database.worker_url)

    with ready.running(*args, said="connecting again") as worker:
        assert worker.terminated() == 0, worker.log()
        assert "s3cret" not in worker.log()
