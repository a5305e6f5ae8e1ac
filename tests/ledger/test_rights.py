"""Who may do what in the ledger: functions for the four roles, tables for nobody, and no way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors, sql

from brokerjobs.ledger.roles import GRANTS, ROLES
from tests.databases import KINDS, replaced
from tests.ledger.ledger_caller import Caller, new_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Database
    from tests.ledger.ledger_driver import Doors, Ledger

FUNCTIONS = (
    "select p.oid::regprocedure::text, p.proname from pg_proc p where p.pronamespace = 'brokerjobs'::regnamespace"
)
TABLES = "select relname from pg_class where relnamespace = 'brokerjobs'::regnamespace and relkind in ('r', 'p', 'v')"


@pytest.mark.parametrize("role", ROLES)
def test_roles__execute_exactly_what_is_granted(ledger: Ledger, role: str) -> None:
    query = FUNCTIONS + " and has_function_privilege(%s, p.oid, 'execute')"
    may = {name for _, name in ledger.owner.execute(query.encode(), [role])}

    assert may == GRANTS[role]


@pytest.mark.parametrize("kind", KINDS)
def test_logins__execute_exactly_what_is_granted(ledger: Ledger, doors: Doors, kind: str) -> None:
    """And a login is a member of one role: what it may, its connection may."""
    connection = doors.connect(kind)
    may = {
        name for _, name in connection.execute((FUNCTIONS + " and has_function_privilege(p.oid, 'execute')").encode())
    }
    doors.give_back(kind, connection)

    assert may == GRANTS[f"brokerjobs_{kind}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "statement", ["select from {}", "insert into {} default values", "delete from {}", "truncate {}"]
)
def test_logins__have_no_right_on_any_relation(ledger: Ledger, doors: Doors, kind: str, statement: str) -> None:
    tables = [name for (name,) in ledger.owner.execute(TABLES.encode())]
    assert {"job", "job_state", "attempt", "event", "outbox", "review", "migration", "meta"} <= set(tables)
    assert any(name.startswith("event_20") for name in tables)
    connection = doors.connect(kind)
    for name in tables:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.format(f'brokerjobs."{name}"').encode())
    doors.give_back(kind, connection)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "statement",
    [
        "update brokerjobs.job_state set state = 'queued'",
        "update brokerjobs.attempt set result = '1'",
        "update brokerjobs.meta set generation = 0",
        "select nextval('brokerjobs.event_seq')",
        "create table brokerjobs.mine ()",
        "create function brokerjobs.mine() returns integer language sql return 1",
        "drop function brokerjobs.clock()",
        "alter function brokerjobs.clock() owner to current_user",
        "alter table brokerjobs.job_state disable trigger all",
        "set role brokerjobs_test_owner",
        "select brokerjobs.new_generation()",
        "select brokerjobs.note(gen_random_uuid(), null, 'x', null, now(), null)",
        "select brokerjobs.clock()",
    ],
)
def test_logins__cannot_go_round_the_functions(ledger: Ledger, doors: Doors, kind: str, statement: str) -> None:
    connection = doors.connect(kind)
    with pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)) as refused:
        connection.execute(statement.encode())
    doors.give_back(kind, connection)

    assert refused.value.sqlstate == "42501"


def test_public__has_nothing(ledger: Ledger) -> None:
    rights = ledger.owner.execute(
        "select p.oid::regprocedure::text from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) r"
        " where p.pronamespace = 'brokerjobs'::regnamespace and r.grantee = 0"
        " union all select c.relname from pg_class c, aclexplode(c.relacl) r"
        " where c.relnamespace = 'brokerjobs'::regnamespace and r.grantee = 0"
        " union all select n.nspname from pg_namespace n, aclexplode(n.nspacl) r"
        " where n.nspname = 'brokerjobs' and r.grantee = 0"
    ).fetchall()

    assert rights == []


@pytest.fixture
def stranger(doors: Doors) -> Iterator[psycopg.Connection]:
    """A login of the same server that is a member of none of the roles."""
    with psycopg.connect(doors.database.admin_url, autocommit=True) as admin:
        admin.execute("create role brokerjobs_test_stranger login password 'stranger'")
        url = replaced(doors.database.admin_url, login="brokerjobs_test_stranger", password="stranger")
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection
        admin.execute("drop role brokerjobs_test_stranger")


def test_stranger__can_do_nothing(ledger: Ledger, stranger: psycopg.Connection) -> None:
    query = FUNCTIONS + " and has_function_privilege(p.oid, 'execute')"
    assert stranger.execute(query.encode()).fetchall() == []

    for statement in (
        "select brokerjobs.schema_version()",
        "select from brokerjobs.job",
        "select brokerjobs.status(array[]::uuid[])",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            stranger.execute(statement.encode())


def test_security_definers__fix_their_search_path(ledger: Ledger) -> None:
    """A temporary table comes last, or it would take the place of ours (PostgreSQL manual, sql-createfunction.html)."""
    paths: dict[str, str] = dict(
        ledger.owner.execute(
            "select proname, (select c from unnest(proconfig) c where c like 'search_path=%') from pg_proc"
            " where pronamespace = 'brokerjobs'::regnamespace and prosecdef"
        ).fetchall()
    )

    assert set(paths.values()) == {"search_path=brokerjobs, pg_temp"}
    assert set(paths) >= set().union(*GRANTS.values())


def _mask_everything(caller: Caller, tables: list[str]) -> None:
    for name in tables:
        caller.connection.execute(sql.SQL("create temporary table {} (mask integer)").format(sql.Identifier(name)))


def _use(ledger: Ledger) -> None:
    """One life of a job, by every caller."""
    job, other = (answer.id for answer in ledger.submit_all([new_job(key="masked"), new_job()]))
    messages, _ = ledger.coordinator.outbox_take()
    ledger.coordinator.outbox_done(*(m.ticket for m in messages if m.ticket))
    first = ledger.worker.take(job)
    ledger.worker.renew(first)
    ledger.worker.start(first)
    ledger.lose(first)
    ledger.ring_again(job)
    second = ledger.worker.take(job)
    assert ledger.worker.complete(first).verdict == "rejected"
    ledger.worker.begin()
    ledger.worker.fence_v1(second)
    ledger.worker.commit()
    assert ledger.worker.complete_v1(second) is False
    assert ledger.producer.cancel(other).verdict == "cancelled"
    assert ledger.producer.record(job)["state"] == "succeeded"
    assert ledger.rows.state(job).accepted_attempt_id == second.attempt_id


def test_temporary_tables__do_not_take_the_place_of_the_ledgers(own_ledger_with_sessions: Ledger) -> None:
    ledger = own_ledger_with_sessions
    tables = [name for (name,) in ledger.owner.execute(TABLES.encode())]
    for caller in (ledger.worker, ledger.producer, ledger.coordinator):
        _mask_everything(caller, tables)

    _use(ledger)

    for caller in (ledger.worker, ledger.producer, ledger.coordinator):
        for name in tables:
            rows = caller.connection.execute(sql.SQL("select from {}").format(sql.Identifier("pg_temp", name)))
            assert rows.fetchall() == []


def test_search_path__of_the_caller_brings_in_nothing(own_ledger_with_sessions: Ledger, database: Database) -> None:
    """Functions, operators and tables of a hostile schema that is first on the caller's path are never called."""
    ledger = own_ledger_with_sessions
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute("create schema evil")
        admin.execute("grant create, usage on schema evil to public")
        admin.execute("create sequence evil.called")
        admin.execute("grant all on sequence evil.called to public")
        admin.execute("grant usage on schema evil to brokerjobs_test_owner")
        _hostile(admin)
    for caller in (ledger.worker, ledger.producer, ledger.coordinator):
        caller.sql("set search_path = evil, pg_temp, public, brokerjobs")

    _use(ledger)

    assert ledger.owner.execute("select is_called from evil.called").fetchone() == (False,)
    ledger.worker.sql("select clock()")
    assert ledger.owner.execute("select is_called from evil.called").fetchone() == (True,)  # the trap does work


_HOSTILE_FUNCTIONS = {
    "clock()": "timestamptz",
    "clock_timestamp()": "timestamptz",
    "now()": "timestamptz",
    "gen_random_uuid()": "uuid",
    "rfc3339(timestamptz)": "text",
    "to_char(timestamp, text)": "text",
    "sha256(bytea)": "bytea",
    "note(uuid, uuid, text, text, timestamptz, jsonb)": "void",
    "require_read_committed()": "void",
    "same(uuid, uuid)": "boolean",
    "before(timestamptz, timestamptz)": "boolean",
}


def _hostile(admin: psycopg.Connection) -> None:
    """The names and operators that the ledger's functions use; a call leaves a trace, which no rollback takes."""
    for signature, returns in _HOSTILE_FUNCTIONS.items():
        value = "" if returns == "void" else f"null::{returns}"
        admin.execute(
            f"create function evil.{signature} returns {returns} language sql volatile as"
            f" $$ select nextval('evil.called'); select {value} $$".encode()
        )
    admin.execute("create operator evil.= (leftarg = uuid, rightarg = uuid, function = evil.same)")
    admin.execute("create operator evil.<= (leftarg = timestamptz, rightarg = timestamptz, function = evil.before)")


def test_attempts__record_the_login_and_not_what_the_caller_says(ledger: Ledger) -> None:
    holding = ledger.worker.take(ledger.submit())
    logins = ledger.owner.execute(
        "select j.login, a.login from brokerjobs.job j join brokerjobs.attempt a on a.job_id = j.id where j.id = %s",
        [holding.job_id],
    ).fetchone()

    assert logins == ("brokerjobs_test_producer", "brokerjobs_test_worker")
