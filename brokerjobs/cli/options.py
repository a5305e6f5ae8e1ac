"""Flags that several commands share, and how they become settings."""

from __future__ import annotations

import enum
import getpass
import socket
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from uuid import UUID

import typer

from brokerjobs.cli import output
from brokerjobs.cli.failures import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerjobs.rules.needs import Need
    from brokerjobs.settings import Settings

_NAME_LIMIT: Final = 255  # as everywhere else that a submitter is named

Application: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", show_default=False, help="The application, if not set elsewhere."),
]
ApplicationFlag: TypeAlias = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", show_default=False, help="The application, if not set elsewhere."),
]
DatabaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", show_default=False, help="The ledger, as postgresql://…"),
]
BrokerUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--broker-url", metavar="URL", show_default=False, help="The broker, as amqp://…"),
]
OutputFormat: TypeAlias = Annotated[output.Format, typer.Option("-o", "--output", help="What stdout gets.")]
JobId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", show_default=False, help="The namespace of the job type.")
]
Tags: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", show_default=False, help="A tag; may be repeated.")
]
By: TypeAlias = Annotated[
    str | None, typer.Option("--by", show_default=False, help="Who does this, for the record; by default user@host.")
]


class Priority(enum.StrEnum):
    """Lanes of a queue."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def settings_of(flags: Mapping[str, object]) -> Settings:
    """The settings, of which `flags` (dotted keys) were given on the line unless None; raises ConfigurationError."""
    from brokerjobs.settings_loading import load_settings  # noqa: PLC0415  # slow: pydantic-settings

    return load_settings({key: value for key, value in flags.items() if value is not None})


def job_id_of(text: str) -> UUID:
    """The id that `text` is; raises UsageError."""
    try:
        return UUID(text)
    except ValueError:
        message = f"{text!r} is no job id: ids are UUIDs, such as 01890a5d-ac96-774b-bcce-b302099a8057"
        raise UsageError(message, hint="brokerjobs jobs list") from None


def tags_of(given: Sequence[str] | None) -> dict[str, str]:
    """The tags that KEY=VALUE texts are; raises UsageError."""
    tags: dict[str, str] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not (key and equals):
            message = f"--tag {one!r} is not of the form KEY=VALUE"
            raise UsageError(message)
        tags[key] = value
    return tags


def capabilities_of(given: Sequence[str] | None) -> dict[str, list[str]] | None:
    """The capabilities that NAME=VALUE texts are, None if there are none; raises UsageError."""
    table: dict[str, list[str]] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            message = f"--capability {one!r} is not of the form NAME=VALUE"
            raise UsageError(message)
        table.setdefault(name, []).append(value)
    return table or None


def needs_of(given: Sequence[str] | None) -> tuple[Need, ...]:
    """The needs that texts such as gpu=a100 are; raises UsageError."""
    from brokerjobs.rules.need_texts import read_need  # noqa: PLC0415  # the one command that has it

    try:
        return tuple(map(read_need, given or ()))
    except ValueError as error:
        message = f"--need {error}"
        raise UsageError(message) from None


def type_of(text: str, namespace: str | None) -> tuple[str | None, str]:
    """The namespace, if it is said, and the name of a job type written as `name` or `namespace/name`.

    Raises UsageError if two namespaces are said.
    """
    before, slash, name = text.rpartition("/")
    if slash and namespace is not None and before != namespace:
        message = f"two namespaces are given: {before!r} in {text!r}, and --namespace {namespace!r}"
        raise UsageError(message)
    return (before if slash else namespace), name


def who(by: str | None) -> str:
    """Who does this: what was said, or user@host; raises UsageError."""
    if by is not None:
        if not 0 < len(by) <= _NAME_LIMIT:
            message = f"--by has {len(by)} characters, not 1 to {_NAME_LIMIT}"
            raise UsageError(message)
        return by
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
