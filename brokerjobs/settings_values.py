"""What the values of settings may be, and how they are written; errors say what is wrong, and never show a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Secret, SecretStr
from pydantic_settings import NoDecode

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import capabilities, secrets
from brokerjobs.rules.durations import parse_duration
from brokerjobs.rules.quantities import parse_quantity
from brokerjobs.rules.texts import redacted, storable

_OPTION_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_LONGEST_OPTION: Final = 10_000  # the keys of service accounts are JSON of some thousand characters


class SecretUrl(Secret[str]):
    """A URL whose password is never shown; `get_secret_value()` gives it whole."""

    def _display(self) -> str:
        return redacted(self.get_secret_value())


def _starts_with(*schemes: str) -> AfterValidator:
    def check(url: SecretUrl) -> SecretUrl:
        if not url.get_secret_value().startswith(tuple(f"{scheme}://" for scheme in schemes)):
            message = f"must start with {' or '.join(f'{scheme}://' for scheme in schemes)}"
            raise ValueError(message)
        secrets.own.hide_url(url.get_secret_value())
        return url

    return AfterValidator(check)


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        message = "must be a number, not true or false"
        raise ValueError(message)  # noqa: TRY004  # pydantic turns a ValueError alone into a problem of the key
    return value


def between(low: timedelta, high: timedelta) -> AfterValidator:
    """Refuses a duration outside of these bounds."""

    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            message = f"must be between {low.total_seconds():g} and {high.total_seconds():g} seconds"
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _declared(value: object) -> object:
    """A table of texts and lists of texts, or as a variable says it: NAME=VALUE, NAME=VALUE, or the same as JSON."""
    if isinstance(value, str):
        value = _table(value, "gpu=a100, dataset=coco, dataset=imagenet")
    if not isinstance(value, Mapping):
        message = "must be a table of texts and lists of texts"
        raise ValueError(message)  # noqa: TRY004  # as above
    try:
        return dict(capabilities.of(cast("Mapping[str, Any]", value)).texts)
    except ConfigurationError as error:
        raise ValueError("; ".join(error.problems)) from None


def _table(text: str, example: str) -> object:
    if text.lstrip().startswith("{"):
        return json.loads(text)
    table: dict[str, list[str]] = {}
    for one in text.split(","):
        name, equals, said = one.strip().partition("=")
        if not equals:
            message = f'must be texts such as "{example}"'
            raise ValueError(message)
        table.setdefault(name, []).append(said)
    return table


def options_table(text: str) -> object:
    """Reads options as a variable says them: key=value, key=value, or the same as JSON; raises ValueError."""
    table = _table(text, "region=eu-central-1, access_key_id=…, secret_access_key=…")
    if text.lstrip().startswith("{"):
        return table
    several = cast("dict[str, list[str]]", table)
    if any(len(said) > 1 for said in several.values()):
        message = "a key is said twice"
        raise ValueError(message)
    return {key: said[0] for key, said in several.items()}


def _options(value: object) -> object:
    """A table of texts, or a text of them. No error shows a value."""
    if isinstance(value, str):
        value = options_table(value)
    if not isinstance(value, Mapping):
        message = "must be a table of texts"
        raise ValueError(message)  # noqa: TRY004  # as above
    table = cast("Mapping[object, object]", value)
    options = dict(_option(number, key, said) for number, (key, said) in enumerate(table.items(), 1))
    secrets.own.hide_variables(options)
    return {key: SecretStr(said) for key, said in options.items()}


def _option(number: int, key: object, said: object) -> tuple[str, str]:
    """Says which one is wrong by its number: where a secret was written without its key, it would be the key."""
    if not (isinstance(key, str) and _OPTION_KEY.fullmatch(key)):
        message = f"key {number} is not 1 to 100 letters, digits and _, such as access_key_id"
        raise ValueError(message)
    if isinstance(said, SecretStr):
        said = said.get_secret_value()
    if isinstance(said, bool):
        said = "true" if said else "false"
    text = str(said) if isinstance(said, (str, int, float)) else ""
    if not (0 < len(text) <= _LONGEST_OPTION and storable(text) == text):
        message = f"value {number} is not a text of 1 to {_LONGEST_OPTION} characters"
        raise ValueError(message)
    return key, text


def _without_secrets(url: str) -> str:
    """A store's URL is recorded and shown; what it must be else is said where it is read, `artifacts.locations`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or not url.isprintable() or " " in url or not (url.startswith("/") or parts.scheme):
        message = "must be a folder, as an absolute path, or a URL such as s3://bucket/prefix"
        raise ValueError(message)
    user, at, _ = parts.netloc.rpartition("@")
    # abfss://FILE_SYSTEM@ACCOUNT: what stands there is no user.
    named = at and (":" in user or not parts.scheme.startswith("abfs"))
    if not url.startswith("/") and (named or parts.query or parts.fragment):
        message = "must have no user, password, ? or #: it is recorded and shown; put secrets into artifacts.options"
        raise ValueError(message)
    return url


def _bytes(value: object) -> object:
    if isinstance(value, str):
        quantity = parse_quantity(value)
        return int(quantity.amount) if quantity.amount == int(quantity.amount) else value
    return _no_truth(value)


Capabilities = Annotated[Mapping[str, tuple[str, ...]], NoDecode, BeforeValidator(_declared)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
UpToHour = Annotated[Duration, between(timedelta(0), timedelta(hours=1))]
Wait = Annotated[Duration, between(timedelta(milliseconds=10), timedelta(hours=1))]
UpToDay = Annotated[Duration, between(timedelta(seconds=1), timedelta(days=1))]
Kept = Annotated[Duration, between(timedelta(hours=1), timedelta(days=36_500))]
Count = Annotated[int, BeforeValidator(_no_truth)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:%-]{1,255}$")]
Port = Annotated[Count, Field(ge=1, le=65_535)]
DatabaseUrl = Annotated[SecretUrl, _starts_with("postgresql", "postgres")]
ManagementUrl = Annotated[SecretUrl, _starts_with("http", "https")]
BrokerUrl = Annotated[SecretUrl, _starts_with("amqp", "amqps", "memory")]
UpToYear = Annotated[Duration, between(timedelta(0), timedelta(days=365))]
Size = Annotated[int, BeforeValidator(_bytes), Field(ge=1, le=5 * 2**40)]  # S3 takes no larger object
ArtifactsUrl = Annotated[str, AfterValidator(_without_secrets)]
StoreOptions = Annotated[Mapping[str, SecretStr], BeforeValidator(_options)]
