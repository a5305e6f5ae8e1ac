"""The client of code that does not await: what it promises to threads, to forks and to programs that just end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from uuid_utils.compat import uuid7

from brokerjobs import (
    ConfigurationError,
    IdempotencyConflict,
    InvalidPayload,
    JobCancelled,
    JobNotFound,
    JobState,
    PermissionDenied,
    RefusedMove,
    ResultTimeout,
    Submission,
)
from brokerjobs.client import CancelOutcome
from tests.flow.producing import Charge, Receipt
from tests.flow.storefront import Storefront, Street, street

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from brokerjobs.servers.finder import Server
    from tests.databases import Databases

LONG = timedelta(seconds=20)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def high_street(databases: Databases, rabbitmq: Server) -> Iterator[Street]:
    database = databases.with_ledger()
    with street(database, rabbitmq.url) as opened:
        yield opened
    databases.drop(database)


@pytest.fixture
def shop(high_street: Street, namespace: str) -> Storefront:
    return high_street.storefront(namespace)


def test_submit__records_and_is_rung_behind_the_commit(shop: Storefront) -> None:
    route = shop.open_route()
    with shop.client() as client:
        handle = client.submit(shop.charge, Charge(cents=7), key="order-1", tags={"order": "1"})
        record = handle.record()
        many = client.submit_many(shop.charge, [Submission(Charge()), Submission(Charge(), key="order-2")])
        assert client.submit_many(shop.charge, []) == []
        shop.all_announced()
    assert (record.submitted_by, record.key, record.tags) == ("orders-web", "order-1", {"order": "1"})
    assert record.data["payload"] == {"account": "a-1", "cents": 7}
    assert [one.id == shop.jobs()[key] for one, key in ((handle, "order-1"), (many[1], "order-2"))] == [True, True]
    assert shop.arrived(route, 3) == {handle.id, *(one.id for one in many)}


def test_submit__refused_says_why_and_records_nothing(shop: Storefront) -> None:
    many = [Submission(Charge(cents=cents), key=f"order-{cents}") for cents in range(300)]
    with shop.client("billing") as billing, shop.client() as client:
        first = billing.submit(shop.charge, Charge(cents=-1), key="order-250")
        with pytest.raises(IdempotencyConflict) as conflict:
            client.submit(shop.charge, Charge(), key="order-250")
        with pytest.raises(IdempotencyConflict) as placed:
            client.submit_many(shop.charge, many)
        with pytest.raises(InvalidPayload) as invalid:
            client.submit_many(shop.charge, [Submission(Charge()), Submission(Charge(account="\x00"))])
    assert (conflict.value.first_submitted_by, conflict.value.submitted_by) == ("billing", "orders-web")
    assert placed.value.__notes__ == ["submission 251 of 300; none of them was recorded"]
    assert invalid.value.__notes__ == ["submission 2 of 2; none of them was recorded"]
    assert shop.jobs() == {"order-250": first.id}


def test_handle__tells_and_cancels(shop: Storefront) -> None:
    with shop.client() as client:
        handle = client.submit(shop.charge, Charge(), key="order-1")
        found = client.find(shop.charge, key="order-1")
        assert found is not None
        assert found.id == handle.id
        assert client.find(shop.charge, key="order-2") is None
        assert client.handle(shop.charge, handle.id).status().state is JobState.QUEUED
        assert not handle.announce(), "submit has rung"
        assert handle.cancel(reason="changed their mind") is CancelOutcome.CANCELLED
        with pytest.raises(JobCancelled, match="changed their mind"):
            handle.result(timeout=LONG)
        with pytest.raises(RefusedMove):
            handle.cancel(reason="again")
        unknown = client.handle(shop.charge, uuid7())
        for asked in (unknown.status, unknown.record, lambda: unknown.result(timeout=LONG)):
            with pytest.raises(JobNotFound, match=str(unknown.id)):
                asked()
    assert repr(handle) == f"<SyncJobHandle {handle.id} of {shop.app.namespace}/payment.charge>"


def test_result__is_waited_for_by_many_threads_over_one_connection(shop: Storefront) -> None:
    with shop.client("waiters") as client, ThreadPoolExecutor(40) as threads:
        handles = client.submit_many(shop.charge, [Submission(Charge(cents=cents)) for cents in range(20)])
        waits = [threads.submit(handle.result, timeout=LONG) for handle in handles * 2]
        with pytest.raises(ResultTimeout) as early:
            handles[0].result(timeout=timedelta(seconds=0.2))
        for number, handle in enumerate(handles):
            shop.report(shop.place(handle.id), Receipt(reference=f"r-{number}"))
        receipts = [wait.result() for wait in waits]
        (sessions,) = shop.rows(
            "select count(*) as count from pg_stat_activity where application_name = 'brokerjobs client waiters'"
        )
    assert [receipt.reference for receipt in receipts] == [f"r-{number}" for number in range(20)] * 2
    assert early.value.state == "queued (delivery)"
    assert sessions["count"] == 2, "one that submitted, one that polls for all"


def test_threads__share_a_few_connections(shop: Storefront) -> None:
    """More of them than connections; half of them race for the same keys."""

    def submit(number: int) -> UUID:
        handle = client.submit(shop.charge, Charge(), key=f"order-{number}" if number < 50 else None)
        assert handle.status().state is JobState.QUEUED
        return handle.id

    with shop.client("racers", patience=LONG) as client, ThreadPoolExecutor(16) as threads:
        ids = list(threads.map(submit, [*range(50), *range(50), *range(50, 150)]))
        (sessions,) = shop.rows(
            "select count(*) as count from pg_stat_activity where application_name = 'brokerjobs client racers'"
        )
    assert len(set(ids)) == 150
    assert shop.jobs().keys() - {None} == {f"order-{number}" for number in range(50)}
    assert sessions["count"] <= 5


def test_closed_client__says_so_and_tells_those_who_wait(shop: Storefront) -> None:
    client = shop.client()
    with client, ThreadPoolExecutor(1) as threads:
        handle = client.submit(shop.charge, Charge())
        late = threads.submit(handle.result, timeout=LONG)
        client.close()
        with pytest.raises(ConfigurationError, match="closed"):
            late.result()
    for asked in (lambda: client.submit(shop.charge, Charge()), handle.status):
        with pytest.raises(ConfigurationError, match="closed"):
            asked()
    with client:  # and it can be opened again
        assert handle.status().state is JobState.QUEUED


def test_wrong_login__is_said_at_once(shop: Storefront) -> None:
    url = shop.database.reader_url
    with shop.client(database_url=url, patience=LONG) as client, pytest.raises(PermissionDenied, match="--grant"):
        client.submit(shop.charge, Charge())


PROGRAM = """
import sys
from brokerjobs import App
from brokerjobs.client import behind_thread
behind_thread.LEAVE_SECONDS = 20  # on a busy machine
from tests.flow.producing import Charge, Receipt
app = App(sys.argv[1])
charge = app.job_type("payment.charge", Charge, Receipt, repeatable=True, queue="payments")
client = app.sync_client(submitted_by="script")
print(client.submit(charge, Charge()).id)
"""


OUT_OF_FILES = """
import os, sys
from brokerjobs import App
from brokerjobs.client import behind_thread
behind_thread.LEAVE_SECONDS = 20  # on a busy machine
from tests.flow.producing import Charge, Receipt
app = App(sys.argv[1])
charge = app.job_type("payment.charge", Charge, Receipt, repeatable=True, queue="payments")
client = app.sync_client(submitted_by="script")
assert client.find(charge, key="nothing") is None
opened = []
try:
    while True:
        opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    handle = client.submit(charge, Charge())
for one in opened:
    os.close(one)
later = client.submit(charge, Charge())
print(handle.id, later.id)
"""


def _environment(shop: Storefront) -> dict[str, str]:
    return os.environ | {
        "BROKERJOBS_DATABASE_URL": shop.database.producer_url,
        "BROKERJOBS_BROKER_URL": shop.street.broker_url,
        "FORKING_NAMESPACE": shop.app.namespace,
        "FORKING_ADMIN_URL": shop.database.admin_url,
    }


def test_program__that_just_ends_has_rung(shop: Storefront) -> None:
    route = shop.open_route()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, shop.app.namespace],
        env=_environment(shop),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert shop.bells() == 0
    assert {str(job) for job in shop.arrived(route, 1)} == {done.stdout.strip()}


def test_submission__that_is_committed_does_not_fail_for_want_of_a_thread(shop: Storefront) -> None:
    """An event loop takes files, of which there are none left; the next one has them."""
    route = shop.open_route()
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 64; exec {sys.executable} -c '{OUT_OF_FILES}' {shop.app.namespace}"],
        env=_environment(shop),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, later = done.stdout.split()
    assert "left to the relay" in done.stderr
    assert {str(job) for job in shop.jobs().values()} <= {first, later}
    assert {str(job) for job in shop.arrived(route, 1)} == {later}
    assert shop.bells() == 1


@pytest.mark.parametrize("before", ["fresh", "used"])
def test_forks__of_a_process_with_a_client_work_and_leave_it_alone(shop: Storefront, before: str) -> None:
    shop.open_route()
    with shop.client() as client:
        done = client.submit(shop.charge, Charge(), key="done")
        shop.report(shop.place(done.id), Receipt(reference="r-1"))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.flow.forking", before],
        env=_environment(shop),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    told: dict[str, Any] = json.loads(ran.stdout)
    ids = [*told["parent"], *(job for child in told["children"] for job in child["ids"])]
    assert told["statuses"] == [0, 0, 0]
    assert [child["result"] for child in told["children"]] == ["r-1"] * 3
    assert told["undisturbed"], "a child has ended a session of its parent's"
    assert len(set(ids)) == len(ids)
    found = shop.rows("select id from brokerjobs.job where namespace = %s", shop.app.namespace)
    assert {str(row["id"]) for row in found} == {*ids, str(done.id)}
