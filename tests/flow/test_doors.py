"""Every driver and toolkit that `within=` takes keeps the same promises: to a producer and to a handler.

What the user wrote and what the ledger wrote are committed together or not at all; no refusal of a submission costs him
his transaction; and whoever swallows the error of a stale attempt commits nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from brokerjobs import (
    AlreadyReported,
    ConfigurationError,
    IdempotencyConflict,
    JobNotFound,
    KeyInFlight,
    PermissionDenied,
    SchemaMismatch,
    StaleAttempt,
    Submission,
    SubmissionRefused,
    WrongIsolation,
    needs,
)
from brokerjobs.rules.needs import as_data
from tests.flow.borrowing import ASYNC_WAYS, AUTOCOMMIT, SYNC_WAYS, WAYS, Callers
from tests.flow.producing import Charge, Receipt
from tests.flow.storefront import Storefront, Street, street

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from brokerjobs.servers.finder import Server
    from tests.databases import Database, Databases

every_way = pytest.mark.parametrize("way", WAYS)
RECEIPT = Receipt(reference="r-1")


@pytest.fixture(scope="module")
def high_street(databases: Databases, rabbitmq: Server) -> Iterator[Street]:
    database = databases.with_ledger()
    with street(database, rabbitmq.url) as opened:
        yield opened
    databases.drop(database)


@pytest.fixture(scope="module")
def elsewhere(databases: Databases) -> Iterator[Database]:
    """A database without a ledger."""
    database = databases.blank()
    yield database
    databases.drop(database)


@pytest.fixture
def shop(high_street: Street, namespace: str) -> Storefront:
    return high_street.storefront(namespace)


@pytest.fixture(scope="module")
def callers(high_street: Street) -> Iterator[Callers]:
    """Their clients reach the ledger as producers do, and use none of its connections while they are within=."""
    front = high_street.storefront("callers")
    async_client = front.async_client()
    with front.client() as client, asyncio.Runner() as runner:
        runner.run(async_client.__aenter__())
        yield Callers(client, async_client, runner)
        runner.run(async_client.__aexit__(None, None, None))


class _Base(DeclarativeBase):
    pass


class _Order(_Base):
    __tablename__ = "orders"
    app: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


# What a producer is promised.


@every_way
def test_submit__is_there_when_the_caller_commits(shop: Storefront, callers: Callers, way: str) -> None:
    not_before = datetime.now(UTC) - timedelta(minutes=1)
    with callers.of(way, shop.database.producer_url) as caller:
        caller.run(shop.insert_order(1))
        handle = caller.submit(
            shop.charge,
            Charge(account='quotes " and \\ and {braces}, NULL, %s and :p0'),
            key="order-1",
            tags={"order": "1", "na{me": 'a "quoted", \\ value'},
            not_before=not_before,
            deadline=timedelta(hours=1),
        )
        with pytest.raises(JobNotFound):
            caller.ask(handle.status)
        caller.commit()
        record = caller.ask(handle.record)
    assert record.data["payload"]["account"] == 'quotes " and \\ and {braces}, NULL, %s and :p0'
    assert record.tags == {"order": "1", "na{me": 'a "quoted", \\ value'}
    assert record.not_before == not_before
    assert record.deadline == record.submitted_at + timedelta(hours=1)
    assert record.data["payload_checked"]
    assert shop.jobs() == {"order-1": handle.id}
    assert shop.orders() == [1]
    (left,) = shop.rows("select hold_until <= made_at as at_once from brokerjobs.outbox where job_id = %s", handle.id)
    assert left["at_once"], "the relay may publish it as soon as the caller commits"


@every_way
def test_submit__with_a_priority_and_needs(shop: Storefront, callers: Callers, way: str) -> None:
    added = [needs.exclusive("{account}: 100 % {cents}"), needs.one_of("gpu", ["a100", 'the "big" one, {h}'])]
    with callers.of(way, shop.database.producer_url) as caller:
        high = caller.submit(shop.charge, Charge(account="%s"), priority="high", needs=added)
        plain, low = caller.submit_many(
            shop.charge, [Submission(Charge()), Submission(Charge(), priority="low", needs=added[:1])]
        )
        with pytest.raises(SubmissionRefused, match="asks for the payload's field owner, which is missing"):
            caller.submit(shop.charge, Charge(), needs=[needs.exclusive("{owner}")])
        caller.commit()
        records = [caller.ask(one.record).data for one in (high, plain, low)]
    assert [one["priority"] for one in records] == ["high", "normal", "low"]
    assert [one["added_needs"] for one in records] == [as_data(added), [], as_data(added[:1])]
    held = [[one["name"] for one in each["resources"]] for each in records]
    assert held == [["%s: 100 % 100"], [], ["a-1: 100 % 100"]]


@every_way
def test_submit__is_gone_when_the_caller_rolls_back(shop: Storefront, callers: Callers, way: str) -> None:
    with callers.of(way, shop.database.producer_url) as caller:
        caller.run(shop.insert_order(1))
        handle = caller.submit(shop.charge, Charge(), key="order-1")
        caller.submit_many(shop.charge, [Submission(Charge()), Submission(Charge())])
        caller.rollback()
        with pytest.raises(JobNotFound):
            caller.ask(handle.announce)
    assert (shop.jobs(), shop.bells(), shop.orders()) == ({}, 0, [])


@every_way
def test_submit__refused_leaves_the_callers_transaction_alive(shop: Storefront, callers: Callers, way: str) -> None:
    url = shop.database.producer_url
    many = [Submission(Charge(cents=cents), key=f"order-{cents}") for cents in range(300)]
    with callers.of(way, url) as billing:
        first = billing.submit(shop.charge, Charge(cents=-1), key="order-250")
        billing.commit()
    with callers.of(way, url) as caller:
        caller.run(shop.insert_order(1))
        with pytest.raises(IdempotencyConflict) as refused:
            caller.submit(shop.charge, Charge(cents=250), key="order-250")
        caller.run(shop.insert_order(2))
        with pytest.raises(IdempotencyConflict) as placed:
            caller.submit_many(shop.charge, many)
        for wrong in (timedelta.max, timedelta.min, datetime.max.replace(tzinfo=UTC)):
            with pytest.raises(SubmissionRefused, match="deadline"):
                caller.submit(shop.charge, Charge(), deadline=wrong)
        again = caller.submit(shop.charge, Charge(cents=-1), key="order-250")
        handles = caller.submit_many(shop.charge, many[:250])
        caller.run(shop.insert_order(3))
        caller.commit()
    assert refused.value.job_id == first.id
    assert placed.value.__notes__ == ["submission 251 of 300; none of them was recorded"]
    assert again.id == first.id
    assert shop.jobs() == {"order-250": first.id} | {f"order-{n}": one.id for n, one in enumerate(handles)}
    assert shop.orders() == [1, 2, 3]


@every_way
def test_submit__begins_the_callers_transaction_and_does_not_end_it(
    shop: Storefront, callers: Callers, way: str
) -> None:
    """Nothing was run in it before: many go into a savepoint, which alone would be a transaction of its own."""
    with callers.of(way, shop.database.producer_url) as caller:
        caller.submit_many(shop.charge, [Submission(Charge())])
        assert shop.jobs() == {}
        caller.rollback()
    assert shop.jobs() == {}


@pytest.mark.parametrize("way", [way for way in WAYS if "session" in way or "scoped" in way])
def test_submit__writes_the_sessions_objects_first(shop: Storefront, callers: Callers, way: str) -> None:
    """Also with autoflush off, so that whatever refuses them does so before the job is submitted."""
    with callers.of(way, shop.database.producer_url) as caller:
        session = caller.within() if "scoped" in way else caller.within
        getattr(session, "sync_session", session).autoflush = False
        session.add(_Order(app=shop.app.namespace, number=7))
        caller.submit(shop.charge, Charge())
        assert not session.new
        caller.commit()
    assert shop.orders() == [7]


@pytest.mark.parametrize("way", ["psycopg", "async session/asyncpg"])
def test_key__held_by_another_transaction_is_in_flight(shop: Storefront, callers: Callers, way: str) -> None:
    url = shop.database.producer_url
    with callers.of(way, url) as holder, callers.of(way, url) as caller:
        held = holder.submit(shop.charge, Charge(), key="order-1")
        caller.run(shop.insert_order(1))
        with pytest.raises(KeyInFlight) as refused:
            caller.submit(shop.charge, Charge(), key="order-1")
        assert refused.value.key == "order-1"
        holder.commit()
        again = caller.submit(shop.charge, Charge(), key="order-1")
        caller.commit()
    assert again.id == held.id
    assert shop.orders() == [1]


# What a handler is promised.


@pytest.fixture
def job(shop: Storefront) -> UUID:
    return shop.submit()


@every_way
def test_complete__commits_the_writes_and_the_result_together(
    shop: Storefront, callers: Callers, job: UUID, way: str
) -> None:
    place = shop.place(job)
    with callers.of(way, shop.database.worker_url) as caller:
        caller.run(shop.insert_order(1))
        caller.fence(place)
        caller.complete(place, RECEIPT)
        assert (shop.state(job), shop.orders()) == ("running", [])
        caller.commit()
    assert (shop.state(job), shop.orders()) == ("succeeded", [1])
    (row,) = shop.rows("select result from brokerjobs.attempt where id = %s", place.holding.attempt_id)
    assert row["result"] == {"reference": "r-1"}


@every_way
def test_complete__rolled_back_is_not_reported(shop: Storefront, callers: Callers, job: UUID, way: str) -> None:
    place = shop.place(job)
    with callers.of(way, shop.database.worker_url) as caller:
        caller.run(shop.insert_order(1))
        caller.complete(place, RECEIPT)
        caller.rollback()
    assert (shop.state(job), shop.orders()) == ("running", [])
    shop.report(place, RECEIPT)


@every_way
@pytest.mark.parametrize("what", ["fence", "complete"])
def test_stale_attempt__commits_nothing_even_if_its_error_is_swallowed(
    shop: Storefront, callers: Callers, job: UUID, way: str, what: str
) -> None:
    place = shop.place(job)
    shop.lose(place)
    with callers.of(way, shop.database.worker_url) as caller:
        caller.run(shop.insert_order(1))
        with pytest.raises(StaleAttempt) as stale:
            caller.fence(place) if what == "fence" else caller.complete(place, RECEIPT)
        with contextlib.suppress(Exception):
            caller.run(shop.insert_order(2))
        with contextlib.suppress(Exception):  # some say so, most answer the commit with a rollback
            caller.commit()
    assert (shop.state(job), shop.orders()) == ("running", [])
    assert (stale.value.job_id, stale.value.attempt_id) == (job, place.holding.attempt_id)
    assert stale.value.fencing_number == place.holding.fencing_number
    assert stale.value.reason == "newer_attempt"


@every_way
def test_second_transaction__of_an_attempt_that_has_reported_commits_nothing(
    shop: Storefront, callers: Callers, job: UUID, way: str
) -> None:
    """As after a COMMIT without an answer: whoever simply tries again must not pay twice."""
    place = shop.place(job)
    shop.report(place, RECEIPT)
    with callers.of(way, shop.database.worker_url) as caller:
        caller.run(shop.insert_order(1))
        with pytest.raises(AlreadyReported) as refused:
            caller.complete(place, RECEIPT)
        with contextlib.suppress(Exception):
            caller.commit()
    assert shop.orders() == []
    assert refused.value.attempt_id == place.holding.attempt_id


@every_way
def test_stricter_transaction__is_refused_to_a_handler_and_not_to_a_producer(
    shop: Storefront, callers: Callers, job: UUID, way: str
) -> None:
    place = shop.place(job)
    with callers.of(way, shop.database.worker_url, "REPEATABLE READ") as caller:
        caller.run(shop.insert_order(1))
        with pytest.raises(WrongIsolation) as refused:
            caller.complete(place, RECEIPT)
        with contextlib.suppress(Exception):
            caller.commit()
    assert refused.value.level == "REPEATABLE READ"
    assert (shop.state(job), shop.orders()) == ("running", [])
    with callers.of(way, shop.database.producer_url, "REPEATABLE READ") as caller:
        caller.submit(shop.charge, Charge(), key="strict")
        caller.commit()
    assert "strict" in shop.jobs()


# What is refused to everybody, with what to do.

HOW_TO_BEGIN = {
    "psycopg": "`with connection.transaction():`",
    "psycopg2": "set `connection.autocommit = False`",
    "django": "`with transaction.atomic():`",
    "async psycopg": "`async with connection.transaction():`",
    "asyncpg": "`async with connection.transaction():`",
}


@every_way
def test_autocommit__is_refused_with_what_to_do(shop: Storefront, callers: Callers, job: UUID, way: str) -> None:
    place = shop.place(job)
    said = HOW_TO_BEGIN.get(way, 'isolation_level="READ COMMITTED"')
    with callers.of(way, shop.database.producer_url, AUTOCOMMIT) as caller:
        for refused in (
            lambda: caller.submit(shop.charge, Charge(), key="loose"),
            lambda: caller.submit_many(shop.charge, [Submission(Charge(), key="loose")]),
            lambda: caller.fence(place),
            lambda: caller.complete(place, RECEIPT),
        ):
            with pytest.raises(ConfigurationError) as error:
                refused()
            assert said in str(error.value)
    assert "loose" not in shop.jobs()


@every_way
def test_database_without_the_ledger__is_named_as_such(
    shop: Storefront, callers: Callers, elsewhere: Database, job: UUID, way: str
) -> None:
    place = shop.place(job)
    url = elsewhere.worker_url
    with callers.of(way, url) as caller, pytest.raises(SchemaMismatch, match=r"no ledger.*run `brokerjobs setup`"):
        caller.submit(shop.charge, Charge())
    with callers.of(way, url) as caller, pytest.raises(SchemaMismatch, match="in the database of your own tables"):
        caller.complete(place, RECEIPT)


@every_way
def test_login_without_the_role__is_told_which(shop: Storefront, callers: Callers, job: UUID, way: str) -> None:
    place = shop.place(job)
    said = r"may not do this.*producer=LOGIN to submit, worker=LOGIN to fence"
    with callers.of(way, shop.database.worker_url) as caller, pytest.raises(PermissionDenied, match=said):
        caller.submit(shop.charge, Charge())
    with callers.of(way, shop.database.producer_url) as caller, pytest.raises(PermissionDenied, match=said):
        caller.fence(place)


@pytest.mark.parametrize("way", SYNC_WAYS)
def test_sync_transaction__given_to_a_coroutine_is_refused(shop: Storefront, callers: Callers, way: str) -> None:
    with callers.of(way, shop.database.producer_url) as caller:
        submitting = callers.async_client.submit(shop.charge, Charge(), within=caller.within)
        with pytest.raises(ConfigurationError, match=r"that one is sync.*app\.sync_client.*takes a psycopg Async"):
            callers.runner.run(submitting)


@pytest.mark.parametrize("way", ASYNC_WAYS)
def test_async_transaction__given_to_plain_code_is_refused(shop: Storefront, callers: Callers, way: str) -> None:
    said = r"has to be awaited.*app\.client.*takes a psycopg Connection"
    url = shop.database.producer_url
    with callers.of(way, url) as caller, pytest.raises(ConfigurationError, match=said):
        callers.client.submit(shop.charge, Charge(), within=caller.within)


def test_what_is_no_transaction__is_refused(shop: Storefront, callers: Callers) -> None:
    with pytest.raises(ConfigurationError, match=r"within= was given a builtins\.str; here it takes a psycopg Conn"):
        callers.client.submit(shop.charge, Charge(), within="session")
    with pytest.raises(ConfigurationError, match=r"within= was given a builtins\.str; here it takes a psycopg Async"):
        callers.runner.run(callers.async_client.submit(shop.charge, Charge(), within="session"))
