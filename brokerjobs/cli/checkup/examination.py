"""All checks on what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.cli.checkup import (
    artifact_checks,
    broker_checks,
    looks,
    process_checks,
    server_checks,
    setup_checks,
    telemetry_checks,
)
from brokerjobs.cli.checkup.findings import Limits, worst_first
from brokerjobs.coordinator.coordinator import service_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.checkup.findings import Finding
    from brokerjobs.cli.checkup.looks import Looks
    from brokerjobs.settings import Settings


def examine(settings: Settings, limits: Limits | None = None) -> list[Finding]:
    """Look at both servers and check everything that could be seen; worst first."""
    seen = looks.look(settings)
    return worst_first(
        [*seen.trouble, *_checked(seen, settings, limits or Limits(clock_offset=settings.worker.clock_skew))]
    )


def _checked(seen: Looks, settings: Settings, limits: Limits) -> Iterator[Finding]:
    yield from setup_checks.versions(seen)
    yield from telemetry_checks.telemetry(prometheus_port=settings.telemetry.metrics_port)
    ledger = seen.ledger
    if ledger is not None:
        yield from setup_checks.schema_version(ledger)
        yield from setup_checks.roles(ledger)
        yield from setup_checks.partitions(ledger)
        services = service_names(removing=settings.retention.enabled)
        yield from process_checks.coordinators(ledger, services, limits)
        yield from process_checks.outbox(ledger, limits)
        yield from process_checks.waiting(ledger)
        yield from process_checks.processes(ledger)
        yield from process_checks.probes(ledger, settings.coordinator.probe_timeout)
        yield from process_checks.reviews(ledger)
        yield from process_checks.quarantine(ledger, seen.broker)
        if seen.clock is not None:
            yield from server_checks.clocks(ledger, seen.clock, limits)
        yield from broker_checks.consumer_timeout(settings.broker.consumer_timeout, ledger, seen.policies)
    yield from artifact_checks.artifacts(ledger, seen.store, limits)
    if seen.broker is not None:
        yield from broker_checks.topology(seen.broker, ledger)
    if seen.server is not None:
        yield from server_checks.connections(seen.server, ledger, limits)
        yield from server_checks.transactions(seen.server, ledger, limits)
