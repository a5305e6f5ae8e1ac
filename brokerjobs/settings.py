"""Settings of a process: every key with its default and its bounds.

Read by `settings_loading.load_settings`; `config/brokerjobs.toml` has each key with its unit and the reason for
its default.  Importing this takes long (pydantic-settings alone 0.1 to 0.2 s): only programs do it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Secret, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import capabilities, secrets
from brokerjobs.rules.durations import parse_duration
from brokerjobs.rules.texts import redacted

T = TypeVar("T")

CONFIG_VARIABLE: Final = "BROKERJOBS_CONFIG"
# AMQP's field for it is a 16 bit number.
_MAX_PREFETCH: Final = 65_535


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


def _between(low: timedelta, high: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            message = f"must be between {low.total_seconds():g} and {high.total_seconds():g} seconds"
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _declared(value: object) -> object:
    """A table of texts and lists of texts, or as a variable says it: NAME=VALUE, NAME=VALUE, or the same as JSON."""
    if isinstance(value, str):
        value = _table(value)
    if not isinstance(value, Mapping):
        message = "must be a table of texts and lists of texts"
        raise ValueError(message)  # noqa: TRY004  # as above
    try:
        return dict(capabilities.of(cast("Mapping[str, Any]", value)).texts)
    except ConfigurationError as error:
        raise ValueError("; ".join(error.problems)) from None


def _table(text: str) -> object:
    if text.lstrip().startswith("{"):
        return json.loads(text)
    table: dict[str, list[str]] = {}
    for one in text.split(","):
        name, equals, said = one.strip().partition("=")
        if not equals:
            message = 'must be texts such as "gpu=a100, dataset=coco, dataset=imagenet"'
            raise ValueError(message)
        table.setdefault(name, []).append(said)
    return table


_Capabilities = Annotated[Mapping[str, tuple[str, ...]], NoDecode, BeforeValidator(_declared)]
_Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
_UpToHour = Annotated[_Duration, _between(timedelta(0), timedelta(hours=1))]
_Wait = Annotated[_Duration, _between(timedelta(milliseconds=10), timedelta(hours=1))]
_UpToDay = Annotated[_Duration, _between(timedelta(seconds=1), timedelta(days=1))]
_Kept = Annotated[_Duration, _between(timedelta(hours=1), timedelta(days=36_500))]
_Count = Annotated[int, BeforeValidator(_no_truth)]
_DatabaseUrl = Annotated[SecretUrl, _starts_with("postgresql", "postgres")]
_ManagementUrl = Annotated[SecretUrl, _starts_with("http", "https")]
_BrokerUrl = Annotated[SecretUrl, _starts_with("amqp", "amqps", "memory")]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class WorkerSettings(_Group):
    """How a worker runs attempts."""

    concurrency: Annotated[_Count, Field(ge=1, le=10_000)] = 20
    threads: Annotated[_Count, Field(ge=1, le=1_000)] = 8
    processes: Annotated[_Count, Field(ge=1, le=1_000)] | None = None
    prefetch: Annotated[_Count, Field(ge=1, le=_MAX_PREFETCH)] | None = None
    renewal: _Wait | None = None
    drain: _UpToHour = timedelta(seconds=25)
    stop_grace: _UpToHour = timedelta(seconds=10)
    leaked_threads: Annotated[_Count, Field(ge=1, le=10_000)] | None = None
    heartbeat: _Wait = timedelta(seconds=10)
    reconcilers: _Wait = timedelta(seconds=10)
    coordinator: bool = True
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    clock_skew: _Wait = timedelta(seconds=1)
    alive_file: Path | None = None
    capabilities: _Capabilities = Field(default_factory=dict[str, tuple[str, ...]])

    @property
    def deliveries(self) -> int:
        """How many unacknowledged deliveries the worker holds: `prefetch`, or twice its concurrency."""
        return self.prefetch or min(2 * self.concurrency, _MAX_PREFETCH)


class BrokerSettings(_Group):
    """How RabbitMQ is used."""

    management_url: _ManagementUrl | None = None
    queue_type: Literal["quorum", "classic"] = "quorum"
    consumer_timeout: _UpToDay = timedelta(minutes=30)
    heartbeat: _UpToHour = timedelta(seconds=15)
    publish_timeout: _Wait = timedelta(seconds=5)
    delivery_limit: Annotated[_Count, Field(ge=1, le=1_000)] = 20
    hand_back: Annotated[_Duration, _between(timedelta(seconds=1), timedelta(hours=12))] | None = None

    @property
    def hand_back_after(self) -> timedelta:
        """How long a worker keeps a delivery that it cannot claim: `hand_back`, or well before RabbitMQ would mind."""
        return self.hand_back or min(timedelta(minutes=5), self.consumer_timeout / 4)

    @model_validator(mode="after")
    def _deliveries_go_before_the_channel(self) -> BrokerSettings:
        if self.hand_back_after > self.consumer_timeout / 2:
            message = "hand_back must be at most half of consumer_timeout: RabbitMQ closes the channel after that"
            raise ValueError(message)
        return self


class CoordinatorSettings(_Group):
    """How the coordinator's services run, and with which logins: by default those of their process."""

    database_url: _DatabaseUrl | None = None
    broker_url: _BrokerUrl | None = None
    service_lease: _Wait = timedelta(seconds=4)
    relay_poll: _Wait = timedelta(milliseconds=50)
    tick: _Wait = timedelta(seconds=1)
    reconcile: _Wait = timedelta(seconds=30)
    probe_timeout: _UpToDay = timedelta(minutes=10)
    retire_routes_after: Annotated[_Duration, _between(timedelta(seconds=1), timedelta(days=365))] = timedelta(hours=24)
    batch: Annotated[_Count, Field(ge=1, le=1_000)] = 200

    @model_validator(mode="after")
    def _lease_outlasts_ticks(self) -> CoordinatorSettings:
        if self.service_lease < 2 * max(self.tick, self.relay_poll):
            message = "service_lease must be at least twice tick and relay_poll: the leader renews it in its ticks"
            raise ValueError(message)
        return self


class RetentionSettings(_Group):
    """For how long the ledger keeps what has ended."""

    enabled: bool = True
    succeeded: _Kept = timedelta(days=30)
    ended: _Kept = timedelta(days=180)
    keys: _Kept = timedelta(days=30)
    processes: _Kept = timedelta(days=7)
    quarantine: _Kept = timedelta(days=30)
    tick: _Wait = timedelta(minutes=1)


class Settings(BaseSettings):
    """Everything that a process can be told: by flags, BROKERJOBS_… variables, then brokerjobs.toml."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        env_prefix="BROKERJOBS_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
    )

    database_url: _DatabaseUrl | None = None
    broker_url: _BrokerUrl | None = None
    app: str | None = None
    worker: WorkerSettings = WorkerSettings()
    broker: BrokerSettings = BrokerSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    retention: RetentionSettings = RetentionSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # not read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The order in which values are looked for."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())

    def need_database_url(self) -> str:
        """The database URL with its password; raises ConfigurationError if it is not set."""
        return _needed("database_url", self.database_url).get_secret_value()

    def need_broker_url(self) -> str:
        """The broker URL with its password; raises ConfigurationError if it is not set."""
        return _needed("broker_url", self.broker_url).get_secret_value()

    def need_app(self) -> str:
        """The application as `module:attribute`; raises ConfigurationError if it is not set."""
        return _needed("app", self.app)


def config_file() -> Path:
    """The file that BROKERJOBS_CONFIG names, or brokerjobs.toml in the current folder."""
    return Path(os.environ.get(CONFIG_VARIABLE) or "brokerjobs.toml")


def _needed(key: str, value: T | None) -> T:
    if value is None:
        flag = key.replace("_", "-")
        message = f"{key} is not set: give --{flag}, BROKERJOBS_{key.upper()}, or {key} in brokerjobs.toml"
        raise ConfigurationError(message)
    return value
