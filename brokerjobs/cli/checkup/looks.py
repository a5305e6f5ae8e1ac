"""Looks at both servers and the artifact store; what cannot be seen is a finding of its own, and stops no other."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from brokerjobs.broker import brokers, management
from brokerjobs.broker.topology import Topology
from brokerjobs.cli import failures
from brokerjobs.cli.checkup import store_look
from brokerjobs.cli.checkup.findings import Finding, fail, warn
from brokerjobs.cli.failures import ExitCode
from brokerjobs.ledger import inspection, schema
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.broker.inspection import Inspection
    from brokerjobs.cli.checkup.store_look import StoreLook
    from brokerjobs.settings import Settings

T = TypeVar("T")

_LEDGER: Final = "database"
_SCHEMA: Final = "schema"
_GRANT: Final = "brokerjobs setup --grant reader=LOGIN, with the login that owns the ledger"
_BROKER: Final = "broker"
_TIMEOUT: Final = "consumer timeout"
_ARTIFACTS: Final = "artifacts"
_SETUP: Final = "brokerjobs setup module:app"
_TAG: Final = "rabbitmqctl set_user_tags USER monitoring"
_MANAGEMENT: Final = (
    "give the API's address with --management-url or in broker.management_url; "
    "rabbitmq-plugins enable rabbitmq_management starts the API"
)


@dataclass(frozen=True, slots=True)
class Clock:
    """This machine's time before and after the ledger said its own."""

    before: datetime
    after: datetime


@dataclass(slots=True)
class Looks:
    """Everything that was seen, and what kept the rest from being seen."""

    server: inspection.Server | None = None
    ledger: inspection.LedgerLook | None = None
    clock: Clock | None = None
    broker: Inspection | None = None
    policies: dict[str, timedelta] | None = None
    """Consumer time-outs that policies give queues; None if no management API was asked."""
    store: StoreLook | None = None
    trouble: list[Finding] = field(default_factory=list[Finding])

    def attempt(self, check: str, look: Callable[[], T], *, required: bool = True) -> T | None:
        """What `look` answers; None with a finding if it raises."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001  # a doctor tells what is wrong, whatever it is
            complaint = failures.complaint_of(error, "brokerjobs doctor")
            # What to run is said once.
            message = complaint.message.replace("\n", "; ").removesuffix(f"; run `{complaint.hint}`")
            next_ = _next(check, complaint)
            if required:
                self.trouble.append(fail(check, message, next_, complaint.code))
            else:
                self.trouble.append(warn(check, message, next_))
            return None


def _next(check: str, complaint: failures.Complaint) -> str:
    if check == _SCHEMA and complaint.code is ExitCode.PERMISSION:
        return _GRANT
    if check == _TIMEOUT and complaint.code is ExitCode.PERMISSION:
        return _TAG
    if check == _TIMEOUT and complaint.code is not ExitCode.UNEXPECTED:
        return _MANAGEMENT
    # A new ledger needs the application's job types as well.
    return _SETUP if complaint.hint == schema.SETUP_COMMAND else complaint.hint


def look(settings: Settings) -> Looks:
    """Look at both servers and the store, one after the other; raises nothing of theirs."""
    looks = Looks()
    url = looks.attempt(_LEDGER, settings.need_database_url)
    if url is not None:
        _look_at_database(looks, url)
    url = looks.attempt(_BROKER, lambda: _broker_url(settings))
    if url is not None:
        looks.broker = looks.attempt(_BROKER, lambda: asyncio.run(_inspected(url, _wanted(looks, settings))))
        given = settings.broker.management_url
        if given is not None:
            looks.policies = looks.attempt(
                _TIMEOUT,
                lambda: management.consumer_timeouts(given.get_secret_value(), url),
                required=False,
            )
    looks.store = looks.attempt(_ARTIFACTS, lambda: store_look.look(settings, looks.ledger))
    return looks


def _look_at_database(looks: Looks, url: str) -> None:
    connection = looks.attempt(_LEDGER, lambda: LedgerConnection(ConnectOptions(url, application="brokerjobs doctor")))
    if connection is None:
        return
    try:
        looks.server = looks.attempt(_LEDGER, lambda: connection.fetch(inspection.server())[0])
        if looks.server is not None:
            looks.ledger = looks.attempt(_SCHEMA, lambda: _look_at_ledger(looks, connection))
    finally:
        connection.close()


def _look_at_ledger(looks: Looks, connection: LedgerConnection) -> inspection.LedgerLook:
    began, before = time.monotonic(), datetime.now(UTC)
    (row,) = connection.fetch(inspection.look())
    # By the monotonic clock, which nobody sets in between.
    looks.clock = Clock(before, before + timedelta(seconds=time.monotonic() - began))
    return row.look()


def _broker_url(settings: Settings) -> str:
    """The coordinator's, if it has one: comparing arguments needs the right to configure, as declaring does."""
    own = settings.coordinator.broker_url
    return settings.need_broker_url() if own is None else own.get_secret_value()


def _wanted(looks: Looks, settings: Settings) -> Topology:
    ledger = looks.ledger
    return Topology(
        namespaces=frozenset() if ledger is None else ledger.namespaces,
        routes=frozenset() if ledger is None else frozenset(ledger.routes),
        queue_type=settings.broker.queue_type,
        delivery_limit=settings.broker.delivery_limit,
    )


async def _inspected(url: str, wanted: Topology) -> Inspection:
    return await brokers.broker_at(url).inspect(wanted)
