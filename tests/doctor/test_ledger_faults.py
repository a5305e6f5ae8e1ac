"""Each check of the ledger is well on a patient who is, and sees the fault that a test makes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.cli.checkup.findings import Level, Limits, exit_code
from brokerjobs.cli.failures import ExitCode
from brokerjobs.ledger import calls, schema
from tests.databases import KINDS, replaced

if TYPE_CHECKING:
    from tests.conftest import PostgresFactory
    from tests.doctor.conftest import Patient

AT_ONCE = timedelta(0)


def test_patient__who_is_well_has_nothing(patient: Patient) -> None:
    diagnosis = patient.examine()

    assert diagnosis.bad() == []
    assert exit_code(diagnosis.findings) == ExitCode.DONE
    assert {one.check for one in diagnosis.findings} == {
        "versions",
        "telemetry",
        "schema",
        "functions",
        "roles",
        "partitions",
        "coordinator",
        "outbox",
        "workers",
        "processes",
        "probes",
        "reviews",
        "quarantine",
        "artifacts",
        "clocks",
        "connections",
        "transactions",
        "consumer timeout",
        "topology",
    }
    for words in ("PostgreSQL 1", "RabbitMQ ", "Python 3.", "psycopg ", "aiormq ", "brokerjobs 0."):
        assert words in diagnosis.text()


@pytest.mark.parametrize(
    ("change", "says", "next_"),
    [
        ("update brokerjobs.meta set schema_version = 1", "schema is 1, this code needs", "brokerjobs setup"),
        (
            "update brokerjobs.meta set schema_version = 99, oldest_code = 98",
            "is 99 and serves code from 98 on",
            "pip install --upgrade brokerjobs",
        ),
        (
            "update brokerjobs.migration set checksum = 'other' where number = 1",
            "with other contents than this code carries: 0001_ledger",
            "pip install --force-reinstall brokerjobs",
        ),
        (
            "drop function brokerjobs.doctor()",
            "the ledger's schema is missing or too old",
            "brokerjobs setup module:app",
        ),
        ("drop schema brokerjobs cascade", "the ledger's schema is missing or too old", "brokerjobs setup module:app"),
    ],
)
def test_schema__of_another_release_fails(patient: Patient, change: str, says: str, next_: str) -> None:
    patient.sql(change)
    diagnosis = patient.examine()

    (found,) = [one for one in diagnosis.findings if one.level is Level.FAIL]
    assert (found.check, found.next) == ("schema", next_)
    assert f"`{next_}`" not in found.message  # said once
    assert says in found.message
    assert exit_code(diagnosis.findings) == ExitCode.SCHEMA


def test_schema__ahead_of_this_code_and_serving_it_is_well(patient: Patient) -> None:
    """A rolling release: functions may then differ."""
    patient.sql("update brokerjobs.meta set schema_version = 99")
    patient.sql("drop function brokerjobs.status_v1(uuid)")

    assert "functions" not in patient.examine().text()


def test_functions__that_were_changed_by_hand_fail(patient: Patient) -> None:
    patient.sql("alter function brokerjobs.find(text, text, text) set search_path = public")
    patient.sql("drop function brokerjobs.cancel_v1(uuid, text, text)")
    diagnosis = patient.examine()

    said = [(one.message, one.next) for one in diagnosis.findings if one.check == "functions"]
    assert said == [
        ("functions of the ledger are missing: cancel_v1", schema.SETUP_COMMAND),
        ("functions of the ledger differ from this code's: find", schema.SETUP_COMMAND),
    ]
    assert exit_code(diagnosis.findings) == ExitCode.SCHEMA


def test_role__that_lacks_a_function_fails(patient: Patient) -> None:
    patient.sql("revoke execute on function brokerjobs.standing from brokerjobs_worker")
    diagnosis = patient.examine()

    lines = [(one.message, one.next) for one in diagnosis.findings if one.check == "roles"]
    assert lines == [
        ("brokerjobs_test_worker lacks standing of a worker", "brokerjobs setup --grant worker=brokerjobs_test_worker"),
        ("brokerjobs_worker lacks standing of a worker", "brokerjobs setup"),
    ]
    assert exit_code(diagnosis.findings) == ExitCode.PERMISSION


def test_login__of_a_process_that_was_never_granted_its_kind_fails(patient: Patient) -> None:
    patient.sql("update brokerjobs.worker set login = 'brokerjobs_test_producer' where name = 'worker-a'")

    found = patient.examine().only("roles", "fail")

    assert "brokerjobs_test_producer lacks acked, artifact_discard, artifact_ready, " in found.message
    assert found.next == "brokerjobs setup --grant worker=brokerjobs_test_producer"


def test_doctor__may_be_any_login_and_says_which_kinds_it_is(patient: Patient) -> None:
    for kind in KINDS:
        url = getattr(patient.database, f"{kind}_url")
        diagnosis = patient.examine(database_url=url)
        assert diagnosis.bad() == []
        acts = {"operator": "reader, operator"}.get(kind, kind)  # who decides may look, too
        assert f"this login, brokerjobs_test_{kind}, may act as {acts}" in diagnosis.text()


def test_partitions__that_end_this_month_fail(patient: Patient) -> None:
    for (name,) in patient.sql(
        "select c.oid::regclass::text from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'brokerjobs.event'::regclass order by 1 offset 1"
    ):
        patient.sql(f"drop table {name}")

    found = patient.examine().only("partitions", "fail")

    assert "until the end of this month only" in found.message
    assert found.code == ExitCode.SCHEMA
    patient.sql("select brokerjobs.make_partitions(1)", kind="coordinator")
    assert patient.examine().bad() == []


def test_coordinator__that_is_not_there_is_told_and_fails_once_jobs_wait(patient: Patient) -> None:
    patient.sql("update brokerjobs.service set until = clock_timestamp() - interval '1 minute'")

    assert "no coordinator runs" in patient.examine().only("coordinator", "warn").message
    patient.submit()
    found = patient.examine().only("coordinator", "fail")

    assert "and jobs wait for it" in found.message
    assert (found.next, found.code) == ("brokerjobs coordinator", ExitCode.UNREACHABLE)


def test_coordinator__that_ended_just_now_is_missed_at_once_if_nobody_else_is_there(patient: Patient) -> None:
    patient.sql("update brokerjobs.service set until = clock_timestamp() - interval '1 second'")
    assert patient.examine().bad() == []  # another may be taking over

    patient.sql("update brokerjobs.worker set state = 'stopped'")

    assert "no coordinator runs" in patient.examine().only("coordinator", "warn").message


def test_service__that_nobody_leads_is_named(patient: Patient) -> None:
    patient.sql("delete from brokerjobs.service where name = 'partitions'")
    patient.sql("update brokerjobs.service set until = clock_timestamp() - interval '1 minute' where name = 'relay'")

    assert "services that nobody leads: partitions, relay" in patient.examine().only("coordinator", "warn").message


def test_retention__that_is_switched_off_needs_no_leader(patient: Patient) -> None:
    patient.sql("delete from brokerjobs.service where name = 'retention'")

    assert "retention" in patient.examine().only("coordinator", "warn").message
    assert patient.examine(retention__enabled=False).bad() == []


def test_outbox__that_nobody_publishes_is_told(patient: Patient) -> None:
    patient.submit()

    found = patient.examine(Limits(outbox=-timedelta(seconds=1))).only("outbox", "warn")

    assert "1 message waits to be published, the oldest for" in found.message
    assert patient.examine().bad() == []


def test_jobs__on_a_route_that_no_worker_serves_are_told(patient: Patient) -> None:
    patient.register("other", queue="other")
    patient.submit("other", rung=True)
    patient.submit(rung=True)

    diagnosis = patient.examine()

    (found,) = [one for one in diagnosis.findings if one.check == "workers"]
    assert found.level is Level.WARN
    assert found.message == f"1 job waits on {patient.route('other')}, which no worker serves"


def _probe(patient: Patient, route: str, minutes: int, *, returned: bool = False) -> None:
    patient.sql(
        "insert into brokerjobs.probe (ticket, route, made_at, sent_at, returned_at)"
        " select gen_random_uuid(), %s, made, made, case when %s then clock_timestamp() end"
        " from (select clock_timestamp() - make_interval(mins => %s) as made) x",
        route,
        returned,
        minutes,
    )


def test_probes__under_way_are_counted_and_those_that_came_back_are_not(patient: Patient) -> None:
    assert "probes: 0 probes are under way; none is lost" in patient.examine().text()

    _probe(patient, patient.route(), 3)
    _probe(patient, patient.route("other"), 1)
    _probe(patient, patient.route("third"), 20, returned=True)
    diagnosis = patient.examine()

    assert diagnosis.bad() == []
    assert "probes: 2 probes are under way, the oldest for 3m; none is lost" in diagnosis.text()


def test_probes__that_are_lost_are_told_by_route(patient: Patient) -> None:
    _probe(patient, patient.route(), 12)
    _probe(patient, patient.route(), 1)
    _probe(patient, patient.route("other"), 1)

    found = patient.examine().only("probes", "warn")

    assert found.message == f"2 probes have not come back through {patient.route()}, the oldest for 12m"
    assert patient.examine(coordinator__probe_timeout="13m").bad() == []


def test_jobs__in_review_are_told(patient: Patient) -> None:
    job = patient.submit(rung=True)
    patient.sql(
        "insert into brokerjobs.review (id, job_id, cause, opened_at)"
        " values (gen_random_uuid(), %s, 'nobody knows', clock_timestamp())",
        job,
    )
    found = patient.examine().only("reviews", "warn")

    assert found.message.startswith("1 job is in review")
    assert found.next == "brokerjobs review list"
    patient.sql("update brokerjobs.review set closed_at = clock_timestamp(), closed_by = 'me', closed_as = 'succeeded'")
    assert patient.examine().bad() == []


def test_worker__that_has_stopped_serves_nothing(patient: Patient) -> None:
    patient.submit(rung=True)
    patient.sql("update brokerjobs.worker set state = 'stopped' where name = 'worker-a'")

    assert patient.route() in patient.examine().only("workers", "warn").message


def test_worker__that_has_fallen_silent_serves_nothing(patient: Patient) -> None:
    patient.submit(rung=True)
    patient.sql("update brokerjobs.worker set heartbeat_at = heartbeat_at - interval '1 minute' where role = 'worker'")

    diagnosis = patient.examine()

    assert diagnosis.bad() == [("workers", "warn"), ("processes", "warn")]
    unserved, silent = diagnosis.findings[:2]
    assert patient.route() in unserved.message
    assert silent.message == "1 process of the last day fell silent without a word, the last one 1m ago: worker-a"


def test_handlers__that_cannot_be_stopped_are_told_with_their_worker(patient: Patient) -> None:
    patient.sql("update brokerjobs.worker set detail = detail || '{\"leaked_threads\": 3}' where name = 'worker-a'")

    assert patient.examine().only("processes", "warn").message.endswith("on worker-a (3)")


def test_quarantine__of_the_last_day_is_told_by_reason(patient: Patient) -> None:
    for reason in ("unknown_job", "unknown_job", "no doorbell"):
        patient.fetch(calls.quarantine("w", calls.Strange(patient.route(), reason, None, None, None)), "worker")

    found = patient.examine().only("quarantine", "warn")
    assert "3 messages in the last day: unknown_job (2), no doorbell (1)" in found.message

    patient.sql("update brokerjobs.quarantine set at = at - interval '25 hours'")
    assert patient.examine().bad() == []


def test_clock__of_the_database_that_is_off_is_told(patient: Patient) -> None:
    patient.sql(
        "create or replace function brokerjobs.clock() returns timestamptz language sql volatile as"
        " 'select clock_timestamp() - interval ''2 minutes'''"
    )
    messages = [one.message for one in patient.examine().findings if one.level is Level.WARN]

    assert "the database's clock is 2m behind this machine's" in messages


def test_clock__of_a_process_that_is_off_is_told(patient: Patient) -> None:
    patient.beat("worker-late", late=timedelta(seconds=30))

    assert "worker-late (-30.0 s)" in patient.examine().only("clocks", "warn").message
    assert patient.examine(worker__clock_skew="40s").bad() == []


@pytest.mark.parametrize("seen_by", ["owner", "admin", "reader"])
def test_transaction__that_is_open_for_long_is_told(patient: Patient, seen_by: str) -> None:
    """Of another login's a reader sees none, and says so; of the owner's its function sees it."""
    login = {"owner": "owner", "admin": "worker", "reader": "worker"}[seen_by]
    url = patient.database.admin_url if seen_by == "admin" else patient.database.reader_url
    with psycopg.connect(getattr(patient.database, f"{login}_url")) as holder:
        holder.execute("select 1")
        diagnosis = patient.examine(Limits(transaction=AT_ONCE), database_url=url)
        pid = holder.info.backend_pid

    if seen_by == "reader":
        (found,) = [one for one in diagnosis.findings if one.check == "transactions"]
        assert "of other logins show no times" in found.message
        assert "pg_read_all_stats" in found.message
    else:
        found = diagnosis.only("transactions", "warn")
        assert f"a transaction of brokerjobs_test_{login} is open for" in found.message
        assert found.next == f"end it in its program, or select pg_terminate_backend({pid})"


@pytest.fixture(scope="module")
def managed(postgres_factory: PostgresFactory) -> str:
    """A server that allows prepared transactions, and where the ledger's owner may not make roles; the owner's URL."""
    server = postgres_factory({"max_prepared_transactions": "2"})
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("create role owner login password 'owner'")
        admin.execute("create database managed owner owner")
    url = replaced(server.url, database="managed", login="owner", password="owner")
    schema.apply(url)
    return url


def test_roles__that_could_not_be_made_are_told(patient: Patient, managed: str) -> None:
    diagnosis = patient.examine(database_url=managed)

    (found,) = [one for one in diagnosis.findings if one.check == "roles" and one.level is not Level.OK]
    assert found.level is Level.WARN
    assert found.message.startswith("the server has no brokerjobs_producer, brokerjobs_worker, brokerjobs_coordinator")


def test_prepared_transaction__that_is_left_is_told(patient: Patient, managed: str) -> None:
    with psycopg.connect(managed) as connection:
        connection.execute("select pg_current_xact_id()")
        connection.execute("prepare transaction 'left'")

    diagnosis = patient.examine(Limits(transaction=AT_ONCE), database_url=managed)

    assert "a prepared transaction is left for" in diagnosis.text()


def test_connections__that_the_processes_need_and_the_server_lacks_are_told(patient: Patient) -> None:
    for number in range(60):
        patient.beat(f"worker-{number}")

    found = patient.examine().only("connections", "warn")

    assert "61 workers and 1 coordinator hold up to 185 connections" in found.message
    assert "PgBouncer" in found.next


def test_connections__that_are_nearly_all_in_use_fail(patient: Patient) -> None:
    found = patient.examine(Limits(connections=0.0)).only("connections", "fail")

    assert "connections that the server gives to ordinary logins are in use" in found.message
    assert found.code == ExitCode.UNREACHABLE
