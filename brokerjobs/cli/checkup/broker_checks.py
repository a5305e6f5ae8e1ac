"""RabbitMQ: is everything there as it should be, and how long does it wait for acknowledgements?"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.broker.inspection import Standing
from brokerjobs.cli.checkup.findings import fail, ok, several, warn
from brokerjobs.cli.failures import ExitCode, complaint_of
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerjobs.broker.inspection import Inspection
    from brokerjobs.cli.checkup.findings import Finding
    from brokerjobs.ledger.inspection import LedgerLook, TypeLimit

# RabbitMQ's own default (rabbitmq.com, consumers.md).
_DEFAULT: Final = timedelta(minutes=30)
_CHECK: Final = "consumer timeout"
_UNREADABLE: Final = "the broker's own consumer_timeout cannot be read (30 min unless it was changed)"


def topology(broker: Inspection, ledger: LedgerLook | None) -> Iterator[Finding]:
    """Exchanges and queues against what the ledger's routes need."""
    if broker.product == "memory":
        yield warn("topology", "the broker is in one process's memory: for demo and tests", "use RabbitMQ")
    if ledger is None:
        message = "not compared: the ledger says which queues there shall be"
        yield warn("topology", message, "mend what `database` or `schema` says")
        return
    standing = {one: [found for found in broker.found if found.standing is one] for one in Standing}
    for found in standing[Standing.DIFFERS]:
        if found.mismatch is not None:
            mismatch = found.mismatch
            message = (
                f"{found.name} exists with {mismatch.argument} = {mismatch.existing!r}, wanted {mismatch.wanted!r}"
            )
            yield fail("topology", message, complaint_of(mismatch).hint, ExitCode.SCHEMA)
    if missing := [one.name for one in standing[Standing.MISSING]]:
        message = f"not at the broker: {several(missing)}"
        yield fail("topology", message, "brokerjobs setup module:app, or a coordinator", ExitCode.SCHEMA)
    if hidden := [one.name for one in standing[Standing.HIDDEN]]:
        message = f"this broker login may not compare {len(hidden)} of {len(broker.found)}: {several(hidden)}"
        next_ = "set coordinator.broker_url: comparing needs the right to configure, as the coordinator has it"
        yield warn("topology", message, next_)
    right = len(standing[Standing.AS_WANTED])
    if right == len(broker.found):
        yield ok("topology", f"{right} exchanges and queues, each as it should be")


def consumer_timeout(
    setting: timedelta, ledger: LedgerLook, policies: dict[str, timedelta] | None
) -> Iterator[Finding]:
    """The setting against what policies say, where that is known, and against the time limits of the job types.

    What may take longer than half of the setting is acknowledged when it is claimed; what may take less, but longer
    than the broker really waits, loses its channel.
    """
    said = f"broker.consumer_timeout is {show_duration(setting)}"
    trouble = False
    for route in sorted(ledger.routes):
        known = (policies or {}).get(route)
        patience = known or _DEFAULT
        caught = _caught([one for one in ledger.types if one.route == route], setting, patience)
        if known is not None and known < setting:
            trouble = True
            message = f"{said}, and a policy gives {route} only {show_duration(known)}{_lose(caught)}"
            yield warn(_CHECK, message, f"set broker.consumer_timeout = {show_duration(known)!r}, or raise the policy")
        elif known is None and caught:
            trouble = True
            message = f"{said}; {_UNREADABLE}{_lose(caught)}"
            yield warn(_CHECK, message, "set broker.consumer_timeout to what rabbitmqctl environment says")
    if not trouble:
        early = [one.name for one in ledger.types if one.time_limit_seconds > setting.total_seconds() / 2]
        acked = f"; acknowledged when they are claimed: {several(early)}" if early else ""
        where = "" if policies is None else f"; {counted(len(policies), 'queue has', 'queues have')} a policy for it"
        yield ok(_CHECK, f"{said}; {_UNREADABLE}{where}{acked}")


def _caught(types: Sequence[TypeLimit], setting: timedelta, patience: timedelta) -> list[str]:
    """Types that are acknowledged after their attempt, which may take longer than the broker waits."""
    return [
        one.name for one in types if patience.total_seconds() < one.time_limit_seconds <= setting.total_seconds() / 2
    ]


def _lose(types: Sequence[str]) -> str:
    return f": attempts of {several(types)} may lose their channel" if types else ""
