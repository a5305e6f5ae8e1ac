"""`brokerjobs fence install`: the fencing kit in another PostgreSQL database, and what it refuses there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.command import Command
    from tests.databases import Database

FENCE = "select brokerjobs_fence(%s, %s)"


@pytest.fixture
def other(blank_database: Database) -> Database:
    """A database of somebody's own, without a ledger."""
    return blank_database


@pytest.fixture
def kit(offline: Command, other: Database) -> Iterator[psycopg.Connection]:
    """A session of its owner, with the kit and a table of theirs."""
    offline("fence", "install", "--dsn", other.owner_url).ok()
    with psycopg.connect(other.owner_url, autocommit=True) as connection:
        connection.execute("create table account (id integer, cents integer)")
        connection.execute("insert into account values (1, 0)")
        yield connection


def test_install__says_what_it_made_and_can_be_repeated(offline: Command, other: Database) -> None:
    first = offline("fence", "install", "--dsn", other.owner_url, "-o", "json").json()
    with psycopg.connect(other.owner_url, autocommit=True) as connection:
        connection.execute(FENCE, ["account 1", 7])
        again = offline("fence", "install", "--dsn", other.owner_url, "-o", "json").json()
        kept = connection.execute("select resource, highest from brokerjobs_fence").fetchall()

    assert (first["schema"], first["in_schema"], first["made"]) == ("brokerjobs.fence/1", "public", True)
    assert again["made"] is False
    assert kept == [("account 1", 7)]
    assert "was there" in offline("fence", "install", "--dsn", other.owner_url).ok().out


def test_fence__raises_for_a_smaller_number_and_rolls_the_writes_back(kit: psycopg.Connection) -> None:
    with kit.transaction():
        kit.execute("update account set cents = 2")
        kit.execute(FENCE, ["account 1", 2])
        kit.execute(FENCE, ["account 1", 2])  # the same attempt again

    kit.execute("begin")
    kit.execute("update account set cents = 1")
    with pytest.raises(psycopg.DatabaseError) as stale:
        kit.execute(FENCE, ["account 1", 1])
    kit.execute("commit")  # which PostgreSQL answers with ROLLBACK

    assert stale.value.sqlstate == "BJ003"
    assert "fencing number 1 for account 1 is stale: 2 was shown before" in str(stale.value)
    assert kit.execute("select cents from account").fetchone() == (2,)
    kit.execute(FENCE, ["account 2", 1])  # another resource


def test_fence__of_a_transaction_that_rolled_back_has_shown_nothing(kit: psycopg.Connection) -> None:
    with kit.transaction(force_rollback=True):
        kit.execute(FENCE, ["account 1", 9])

    kit.execute(FENCE, ["account 1", 1])


def test_fence__of_two_at_once_lets_the_superseded_one_wait_and_then_refuses_it(
    kit: psycopg.Connection, other: Database
) -> None:
    refused: list[str | None] = []

    def superseded() -> None:
        with psycopg.connect(other.owner_url, autocommit=True) as late:
            try:
                late.execute(FENCE, ["account 1", 1])
            except psycopg.DatabaseError as error:
                refused.append(error.sqlstate)

    waiting = threading.Thread(target=superseded)
    with kit.transaction():
        kit.execute(FENCE, ["account 1", 2])
        waiting.start()
    waiting.join(10)

    assert refused == ["BJ003"]


def test_install__grants_the_function_alone(offline: Command, other: Database) -> None:
    with psycopg.connect(other.admin_url, autocommit=True) as admin:
        name = conninfo_to_dict(other.worker_url)["user"]
        with psycopg.connect(other.worker_url, autocommit=True) as worker:
            offline("fence", "install", "--dsn", other.owner_url).ok()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute(FENCE, ["account 1", 1])
            done = offline("fence", "install", "--dsn", other.owner_url, "--grant", str(name)).ok()
            assert f"granted to {name}" in done.out
            worker.execute(FENCE, ["account 1", 1])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute("update brokerjobs_fence set highest = 0")
        assert admin.execute("select count(*) from brokerjobs_fence").fetchone() == (1,)


def test_install__into_a_schema_works_from_there(offline: Command, other: Database) -> None:
    with psycopg.connect(other.owner_url, autocommit=True) as connection:
        connection.execute("create schema bank")
        offline("fence", "install", "--dsn", other.owner_url, "--schema", "bank").ok()
        connection.execute("select bank.brokerjobs_fence('account 1', 7)")

        assert connection.execute("select highest from bank.brokerjobs_fence").fetchone() == (7,)


def test_mistakes__are_said_without_a_traceback(offline: Command, other: Database) -> None:
    dsn = other.owner_url

    offline("fence", "install", "--dsn", "postgresql://nobody@127.0.0.1:1/none").fails(4, "the database of --dsn")
    offline("fence", "install", "--dsn", "no dsn at all").fails(3, "postgresql://")
    offline("fence", "install", "--dsn", dsn, "--schema", "none").fails(3, "no schema 'none'")
    offline("fence", "install", "--dsn", dsn, "--grant", "nobody at all").fails(3, "no role 'nobody at all'")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table brokerjobs_fence (id integer)")
    offline("fence", "install", "--dsn", dsn).fails(3, "is not the kit's")


def test_install__by_a_login_without_the_right_says_so(offline: Command, other: Database) -> None:
    offline("fence", "install", "--dsn", other.reader_url).fails(9, "may not make the kit")
