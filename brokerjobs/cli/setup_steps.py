"""The steps of `brokerjobs setup`: whatever one of them fails at, a repeat of all of them mends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.broker import names, topology
from brokerjobs.broker.brokers import broker_at
from brokerjobs.cli import options
from brokerjobs.cli.failures import Refused, UsageError
from brokerjobs.cli.need_words import in_words
from brokerjobs.ledger import operations, schema, services
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerjobs.app import App
    from brokerjobs.settings import Settings

_FINGERPRINT: Final = "payload_fingerprint"
_FINGERPRINT_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be set up; without an app only the ledger itself."""

    settings: Settings
    app: App | None
    grants: tuple[tuple[str, str], ...]
    recreate: tuple[str, ...]
    lose_messages: bool


@dataclass(slots=True)
class Told:
    """What was done: said at once in words, and kept as data."""

    say: Callable[[str], None] | None
    done: dict[str, Any] = field(default_factory=dict[str, Any])

    def tell(self, part: str, data: Any, *lines: str) -> None:
        """Say it, and keep it."""
        self.done[part] = data
        if self.say is not None:
            for line in lines:
                self.say(line)


def carry_out(plan: Plan, told: Told) -> None:
    """Set everything up; raises ConfigurationError and what ledger and broker raise."""
    url = plan.settings.need_database_url()
    wanted = None if plan.app is None else _topology(plan.app, plan.settings)
    removed = () if wanted is None else _removed(plan, wanted)
    _apply_schema(url, told)
    _grant(url, plan.grants, told)
    if plan.app is None or wanted is None:
        told.tell("types", [], "no application was given: no job types were registered, nothing declared at the broker")
        return
    ledger = LedgerConnection(ConnectOptions(url, application="brokerjobs setup"))
    try:
        _register(ledger, plan.app, told)
        asyncio.run(_declare(plan.settings.need_broker_url(), wanted, removed))
        ledger.fetch(services.routes_declared(sorted(wanted.routes)))
        keeping = f"{names.dead_queue(plan.app.namespace)}, {names.quarantine_queue(plan.app.namespace)}"
        routes = sorted(wanted.routes)
        told.tell("routes", routes, f"declared at the broker: {', '.join(routes)}; and {keeping}, for what went wrong")
        _ring_again(ledger, [queue for queue in removed if queue in wanted.routes], told)
    finally:
        ledger.close()


def _topology(app: App, settings: Settings) -> topology.Topology:
    return topology.Topology(
        namespaces=frozenset({app.namespace}),
        routes=frozenset(
            names.route_name(app.namespace, one.terms.queue, one.terms.needs_hash) for one in app.types.values()
        ),
        queue_type=settings.broker.queue_type,
        delivery_limit=settings.broker.delivery_limit,
    )


def _removed(plan: Plan, wanted: topology.Topology) -> tuple[str, ...]:
    """The queues to be made anew, checked before anything is changed; raises UsageError and Refused."""
    url = plan.settings.need_broker_url()
    known = [queue.name for queue in wanted.queues()]
    (namespace,) = wanted.namespaces
    removed: list[str] = []
    for given in plan.recreate:
        queue = given if given in known else names.route_name(namespace, given)
        if queue not in known:
            message = f"--recreate {given!r} is no queue of this application; it has {', '.join(known)}"
            raise UsageError(message, hint="brokerjobs setup --help")
        if queue not in wanted.routes and not plan.lose_messages and (count := _count(url, queue)):
            kept = counted(count, "message", "messages")
            message = f"queue {queue!r} keeps {kept} that nothing can ring again: recreating it loses what is there"
            raise Refused(message, hint=f"read them first, or brokerjobs setup module:app --recreate {queue} --yes")
        removed.append(queue)
    return tuple(removed)


def _count(url: str, queue: str) -> int | None:
    return asyncio.run(broker_at(url).message_count(queue))


def _apply_schema(url: str, told: Told) -> None:
    report = schema.apply(url)
    data = {"version": report.version, "applied": report.applied, "roles_missing": report.roles_missing}
    applied = f"applied {', '.join(report.applied)}" if report.applied else "already up to date"
    lines = [f"ledger schema {report.version}: {applied}; {report.functions} functions"]
    if report.roles_missing:
        roles = ", ".join(report.roles_missing)
        lines.append(f"this login may not create roles, so these are missing: {roles}")
        lines.append(
            "  --grant KIND=LOGIN gives their functions to a login itself; until then only this login has them"
        )
    told.tell("ledger", data, *lines)


def _grant(url: str, grants: tuple[tuple[str, str], ...], told: Told) -> None:
    for kind, login in grants:
        schema.grant(url, kind, login)
    told.tell(
        "granted",
        [{"kind": kind, "login": login} for kind, login in grants],
        *(f"granted {kind} to {login}" for kind, login in grants),
    )


def _register(ledger: LedgerConnection, app: App, told: Told) -> None:
    types = [one.as_data() for one in app.types.values()]
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for row in ledger.fetch(services.register_types(app.namespace, types, change=True)):
        was, wanted = row.was or {}, row.wanted or {}
        changes = {key: {"was": was.get(key), "now": value} for key, value in sorted(wanted.items())}
        data.append({"name": row.name, "verdict": row.verdict, "changes": changes})
        verdict = "unchanged" if row.verdict == "same" else row.verdict
        lines.append(f"job type {app.namespace}/{row.name}: {verdict}")
        lines += [f"  {key}: {_shown(key, one['was'])} → {_shown(key, one['now'])}" for key, one in changes.items()]
    told.tell("types", data, *(lines or [f"the application of namespace {app.namespace!r} has no job types"]))


def _shown(key: str, value: Any) -> str:
    if key == "needs":
        return in_words(value or ()) or "none"
    return str(value)[:_FINGERPRINT_SHOWN] if key == _FINGERPRINT and value is not None else str(value)


async def _declare(url: str, wanted: topology.Topology, removed: tuple[str, ...]) -> None:
    for queue in removed:
        await broker_at(url).remove_queue(queue)
    await broker_at(url).declare(wanted)


def _ring_again(ledger: LedgerConnection, routes: list[str], told: Told) -> None:
    rung = {route: sum(operations.ring_route_again(ledger, route, options.who(None))) for route in routes}
    told.tell(
        "rung_again",
        rung,
        *(
            f"made {route} anew; {counted(count, 'job that waits', 'jobs that wait')} for a delivery will be rung"
            for route, count in rung.items()
        ),
    )
