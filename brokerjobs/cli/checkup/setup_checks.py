"""Was the ledger set up by this code, may everybody do what they have to, and are months made ahead?"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.checkup.findings import fail, ok, several, warn
from brokerjobs.cli.failures import ExitCode
from brokerjobs.errors import SchemaMismatch
from brokerjobs.ledger import inspection, schema
from brokerjobs.ledger.roles import GRANTS, ROLES
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.checkup.findings import Finding
    from brokerjobs.cli.checkup.looks import Looks
    from brokerjobs.ledger.inspection import LedgerLook

_OLDEST_POSTGRES: Final = 150_000
_SETUP: Final = schema.SETUP_COMMAND
_LIBRARIES: Final = ("psycopg", "aiormq", "aio-pika", "pydantic")


def versions(looks: Looks) -> Iterator[Finding]:
    """This program, its libraries, and both servers."""
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES)
    here = f"brokerjobs {metadata.version('brokerjobs')}, Python {platform.python_version()}, {libraries}"
    server = looks.server
    if server is not None and server.number < _OLDEST_POSTGRES:
        message = f"PostgreSQL is {server.version}, brokerjobs needs 15 or later"
        yield fail("versions", message, "upgrade PostgreSQL", ExitCode.SCHEMA)
    there = [
        *([] if server is None else [f"PostgreSQL {server.version}"]),
        *([] if looks.broker is None else [looks.broker.product]),
    ]
    yield ok("versions", "; ".join([here, *there]))


def schema_version(ledger: LedgerLook) -> Iterator[Finding]:
    """Tables and functions against those of this code."""
    try:
        schema.check(ledger.schema_version, oldest_code=ledger.oldest_code)
    except SchemaMismatch as error:
        yield fail("schema", str(error).partition("; run")[0], error.command, ExitCode.SCHEMA)
        return
    if ledger.schema_version > schema.code_version():
        ahead = f"the ledger's schema is {ledger.schema_version}, ahead of this code's {schema.code_version()}"
        yield ok("schema", f"{ahead}, which it serves: a release is being rolled out")
        return
    edited = [one.name for one in schema.migrations() if ledger.migrations.get(one.name) != one.checksum]
    if edited:
        message = f"migrations were applied with other contents than this code carries: {several(edited)}"
        yield fail("schema", message, "pip install --force-reinstall brokerjobs", ExitCode.SCHEMA)
    else:
        yield ok("schema", f"{ledger.schema_version}, as this code needs it")
    yield from _drift(ledger)


def _drift(ledger: LedgerLook) -> Iterator[Finding]:
    here = inspection.functions_of_this_code()
    missing = sorted(here.keys() - ledger.functions.keys())
    differing = sorted(name for name in here.keys() & ledger.functions.keys() if here[name] != ledger.functions[name])
    for names, what in ((missing, "are missing"), (differing, "differ from this code's")):
        if names:
            yield fail("functions", f"functions of the ledger {what}: {several(names)}", _SETUP, ExitCode.SCHEMA)
    if not missing and not differing:
        yield ok("functions", f"{len(here)}, each as this code has it")


def roles(ledger: LedgerLook) -> Iterator[Finding]:
    """The group roles, and the logins with which processes are there."""
    lacking = False
    absent = [role for role in ROLES if role not in ledger.may]
    if absent:
        message = f"the server has no {several(absent)}: logins have their functions by themselves"
        yield warn("roles", message, f"{_SETUP}, with a login that may create roles")
    for name, role in _who_needs_what(ledger):
        missing = sorted(GRANTS[role] - ledger.may.get(name, frozenset()))
        if missing:
            lacking = True
            what = "all functions" if len(missing) == len(GRANTS[role]) else several(missing)
            kind = role.removeprefix("brokerjobs_")
            command = _SETUP if name == role else f"{_SETUP} --grant {kind}={name}"
            yield fail("roles", f"{name} lacks {what} of a {kind}", command, ExitCode.PERMISSION)
    if not lacking:
        may = [role.removeprefix("brokerjobs_") for role in ROLES if GRANTS[role] <= ledger.may[ledger.login]]
        yield ok("roles", f"nobody lacks a function; this login, {ledger.login}, may act as {several(may) or 'nobody'}")


def _who_needs_what(ledger: LedgerLook) -> list[tuple[str, str]]:
    """Roles, and logins of living processes, each with the role whose functions it needs."""
    roles: list[tuple[str, str]] = [(role, role) for role in ROLES if role in ledger.may]
    return sorted({*roles, *((one.login, f"brokerjobs_{one.role}") for one in ledger.processes)})


def partitions(ledger: LedgerLook) -> Iterator[Finding]:
    """Months of events ahead: without one no transition can be recorded, so none be made."""
    months = [_month(name) for name in ledger.partitions]
    now = ledger.clock.year * 12 + ledger.clock.month - 1
    ahead = -1
    while now + ahead + 1 in months:
        ahead += 1
    if ahead >= 1:
        yield ok("partitions", f"months of events are made for {counted(ahead, 'month', 'months')} ahead")
        return
    message = f"events have a place until the end of {'this month' if ahead == 0 else 'last month'} only"
    next_ = f"{_SETUP} makes months now; a coordinator's service `partitions` should"
    yield fail("partitions", message, next_, ExitCode.SCHEMA)


def _month(partition: str) -> int:
    """The number of a month since year 0, of `event_YYYYMM`; -1 for another name."""
    digits = partition.rpartition("_")[2]
    return int(digits[:4]) * 12 + int(digits[4:]) - 1 if len(digits) == 6 and digits.isdecimal() else -1
