"""The coordinator's services log in with logins of their own where some are given, in workers and by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.settings import CoordinatorSettings, Settings
from brokerjobs.settings_values import SecretUrl
from brokerjobs.wiring import coordinator_logins
from tests.cli.test_worker_process import drained, state_of
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database

OWN_DATABASE = "BROKERJOBS_COORDINATOR__DATABASE_URL"
OWN_BROKER = "BROKERJOBS_COORDINATOR__BROKER_URL"
NOBODY = "amqp://nobody:wrong@127.0.0.1:1/"


def logins_of_services(database: Database) -> set[str]:
    """The logins with which services are connected to the ledger just now."""
    with psycopg.connect(database.admin_url, autocommit=True) as connection:
        rows = connection.execute(
            "select distinct usename from pg_stat_activity"
            " where datname = current_database() and application_name = 'brokerjobs coordinator'"
        )
        return {name for (name,) in rows}


def test_worker__runs_services_with_the_coordinators_logins_and_jobs_with_its_own(
    ready: Command, database: Database, broker_url: str, shop: str, namespace: str
) -> None:
    env = {"BROKERJOBS_DATABASE_URL": database.worker_url, OWN_DATABASE: database.coordinator_url}
    job = ready("submit", f"{namespace}/add", '{"cents": 1}').ok().out.strip()

    with ready.running("worker", shop, said="is up", env=env) as worker:
        eventually_sync(lambda: state_of(ready, job) == "succeeded", 30)  # rung by the relay: it is this process's
        assert logins_of_services(database) == {"brokerjobs_test_coordinator"}
        assert "is not run by this process" not in worker.log()
        drained(worker)


def test_worker__without_them_runs_no_service_if_its_own_login_may_not(
    ready: Command, database: Database, shop: str
) -> None:
    with ready.running("worker", shop, said="is not run by this process", env=_as_worker(database)) as worker:
        drained(worker)

    assert "permission denied" in worker.log()
    assert "brokerjobs setup --grant" in worker.log()


def test_coordinator__prefers_its_own_logins_and_a_flag_to_all(
    ready: Command, database: Database, broker_url: str
) -> None:
    own = {OWN_DATABASE: database.coordinator_url, OWN_BROKER: broker_url, "BROKERJOBS_BROKER_URL": NOBODY}

    with ready.running("coordinator", said="leads relay", env=_as_worker(database) | own) as coordinator:
        assert logins_of_services(database) == {"brokerjobs_test_coordinator"}
        drained(coordinator)
    flags = ("--database-url", database.coordinator_url, "--broker-url", broker_url)
    wrong = {OWN_DATABASE: database.reader_url, OWN_BROKER: NOBODY}
    with ready.running("coordinator", *flags, said="leads relay", env=_as_worker(database) | wrong) as coordinator:
        drained(coordinator)


def _as_worker(database: Database) -> dict[str, str]:
    return {"BROKERJOBS_DATABASE_URL": database.worker_url}


@pytest.mark.parametrize("own", [True, False])
def test_logins__are_each_the_services_own_or_their_processs(own: bool) -> None:
    settings = Settings(
        database_url=SecretUrl("postgresql://worker@db/x"),
        broker_url=SecretUrl("amqp://worker@mq/"),
        coordinator=CoordinatorSettings(database_url=SecretUrl("postgresql://services@db/x") if own else None),
    )

    assert coordinator_logins(settings) == (f"postgresql://{'services' if own else 'worker'}@db/x", "amqp://worker@mq/")
