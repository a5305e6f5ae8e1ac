"""Connections that threads share: bounded, reused, and never given back in an unknown state."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from brokerjobs.errors import ConfigurationError, LedgerUnavailable
from brokerjobs.ledger.calls import Count
from brokerjobs.ledger.database import ConnectOptions, Query
from brokerjobs.ledger.patient import PatientConnection
from brokerjobs.ledger.shared import SharedConnections
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.ledger.database import SyncFetch
    from tests.databases import Database, Databases

SESSION = Query("select pg_backend_pid()", [], Count)


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[Database]:
    made = databases.blank()
    yield made
    databases.drop(made)


@pytest.fixture
def shared(database: Database) -> Iterator[SharedConnections]:
    """Of the login that never goes through a pooler: the tests tell connections apart by their sessions."""
    made = SharedConnections(ConnectOptions(database.admin_url), limit=2, patience_seconds=0.2)
    yield made
    made.close()


def _session(shared: SharedConnections) -> int:
    return shared.fetch(SESSION)[0].count


def test_shared__is_one_connection_for_one_thread(shared: SharedConnections) -> None:
    assert len({_session(shared) for _ in range(5)}) == 1


def test_shared__is_no_more_than_its_limit(shared: SharedConnections) -> None:
    both = threading.Barrier(3)
    done = threading.Event()

    def hold(fetch: SyncFetch) -> int:
        both.wait(10)
        done.wait(10)
        return fetch(SESSION)[0].count

    with ThreadPoolExecutor(2) as threads:
        held = [threads.submit(shared.in_transaction, hold) for _ in range(2)]
        both.wait(10)
        with pytest.raises(LedgerUnavailable, match="all 2 connections to the ledger are in use"):
            _session(shared)
        done.set()
        sessions = {one.result() for one in held}
    assert len(sessions) == 2
    assert _session(shared) in sessions


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_shared__drops_a_connection_whose_caller_was_interrupted(
    shared: SharedConnections, error: type[BaseException]
) -> None:
    def interrupted(fetch: SyncFetch) -> int:
        fetch(SESSION)
        raise error

    before = _session(shared)
    with pytest.raises(error):
        shared.in_transaction(interrupted)
    assert _session(shared) != before


def test_shared__after_one_has_lost_its_server_tries_none_of_the_others(
    shared: SharedConnections, database: Database
) -> None:
    """They were made of the same server, which has most likely ended all."""

    def both() -> set[int]:
        barrier = threading.Barrier(2)

        def meet(fetch: SyncFetch) -> int:
            session = fetch(SESSION)[0].count
            barrier.wait(10)
            return session

        with ThreadPoolExecutor(2) as threads:
            return {one.result() for one in [threads.submit(shared.in_transaction, meet) for _ in range(2)]}

    before = both()
    ending = SharedConnections(ConnectOptions(database.admin_url), limit=1, patience_seconds=0.2)
    for session in before:
        ending.fetch(Query("select pg_terminate_backend(%s, 10000)", [session], Count))
    ending.close()
    with pytest.raises(LedgerUnavailable):
        _session(shared)
    assert both().isdisjoint(before)


def test_shared__gives_up_a_server_that_does_not_answer(database: Database) -> None:
    asleep = Query("select 1 from pg_sleep(30)", [], Count)
    shared = SharedConnections(ConnectOptions(database.owner_url), limit=2, patience_seconds=0.2, answer_seconds=0.5)
    before = _session(shared)
    began = time.monotonic()
    with pytest.raises(LedgerUnavailable, match=r"has not answered within 0\.5 s"):
        shared.fetch(asleep)
    with pytest.raises(LedgerUnavailable, match=r"has not answered within 0\.5 s"):
        shared.in_transaction(lambda fetch: fetch(asleep))
    assert time.monotonic() - began < 10
    assert _session(shared) != before
    shared.close()


def test_connection__that_gives_its_server_up_is_closed(database: Database) -> None:
    """What came next on it would wait for the same answer."""
    connection = PatientConnection.connect(database.owner_url)
    connection.answer_seconds = 0.3
    with pytest.raises(psycopg.OperationalError, match=r"has not answered within 0\.3 s"):
        connection.execute("select pg_sleep(30)")
    assert connection.closed


def test_shared__closed_while_in_use_is_closed_when_it_is_given_back(
    shared: SharedConnections, database: Database
) -> None:
    def close(fetch: SyncFetch) -> int:
        session = fetch(SESSION)[0].count
        shared.close()
        return session

    session = shared.in_transaction(close)
    with pytest.raises(ConfigurationError, match="closed"):
        _session(shared)
    looking = SharedConnections(ConnectOptions(database.admin_url), limit=1, patience_seconds=0.2)
    alive = Query("select count(*) from pg_stat_activity where pid = %s", [session], Count)
    eventually_sync(lambda: looking.fetch(alive)[0].count == 0)
    looking.close()
