"""Settings of a process: every key with its default and its bounds.

Read by `settings_loading.load_settings`; `config/brokerjobs.toml` has each key with its unit and the reason for
its default.  Importing this takes long (pydantic-settings alone 0.1 to 0.2 s): only programs do it.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from brokerjobs.errors import ConfigurationError
from brokerjobs.settings_values import (
    ArtifactsUrl,
    BrokerUrl,
    Capabilities,
    Count,
    DatabaseUrl,
    Duration,
    Host,
    Kept,
    ManagementUrl,
    Port,
    Size,
    StoreOptions,
    UpToDay,
    UpToHour,
    UpToYear,
    Wait,
    between,
    options_table,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

T = TypeVar("T")

CONFIG_VARIABLE: Final = "BROKERJOBS_CONFIG"
# AMQP's field for it is a 16 bit number.
_MAX_PREFETCH: Final = 65_535


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class WorkerSettings(_Group):
    """How a worker runs attempts."""

    concurrency: Annotated[Count, Field(ge=1, le=10_000)] = 20
    threads: Annotated[Count, Field(ge=1, le=1_000)] = 8
    processes: Annotated[Count, Field(ge=1, le=1_000)] | None = None
    prefetch: Annotated[Count, Field(ge=1, le=_MAX_PREFETCH)] | None = None
    renewal: Wait | None = None
    drain: UpToHour = timedelta(seconds=25)
    stop_grace: UpToHour = timedelta(seconds=10)
    leaked_threads: Annotated[Count, Field(ge=1, le=10_000)] | None = None
    heartbeat: Wait = timedelta(seconds=10)
    reconcilers: Wait = timedelta(seconds=10)
    coordinator: bool = True
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    clock_skew: Wait = timedelta(seconds=1)
    alive_file: Path | None = None
    probe_port: Port | None = None
    probe_host: Host = "127.0.0.1"
    capabilities: Capabilities = Field(default_factory=dict[str, tuple[str, ...]])

    @property
    def deliveries(self) -> int:
        """How many unacknowledged deliveries the worker holds: `prefetch`, or twice its concurrency."""
        return self.prefetch or min(2 * self.concurrency, _MAX_PREFETCH)


class BrokerSettings(_Group):
    """How RabbitMQ is used."""

    management_url: ManagementUrl | None = None
    queue_type: Literal["quorum", "classic"] = "quorum"
    consumer_timeout: UpToDay = timedelta(minutes=30)
    heartbeat: UpToHour = timedelta(seconds=15)
    publish_timeout: Wait = timedelta(seconds=5)
    delivery_limit: Annotated[Count, Field(ge=1, le=1_000)] = 20
    hand_back: Annotated[Duration, between(timedelta(seconds=1), timedelta(hours=12))] | None = None

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

    database_url: DatabaseUrl | None = None
    broker_url: BrokerUrl | None = None
    service_lease: Wait = timedelta(seconds=4)
    relay_poll: Wait = timedelta(milliseconds=50)
    tick: Wait = timedelta(seconds=1)
    reconcile: Wait = timedelta(seconds=30)
    probe_timeout: UpToDay = timedelta(minutes=10)
    retire_routes_after: Annotated[Duration, between(timedelta(seconds=1), timedelta(days=365))] = timedelta(hours=24)
    batch: Annotated[Count, Field(ge=1, le=1_000)] = 200

    @model_validator(mode="after")
    def _lease_outlasts_ticks(self) -> CoordinatorSettings:
        if self.service_lease < 2 * max(self.tick, self.relay_poll):
            message = "service_lease must be at least twice tick and relay_poll: the leader renews it in its ticks"
            raise ValueError(message)
        return self


class RetentionSettings(_Group):
    """For how long the ledger keeps what has ended."""

    enabled: bool = True
    succeeded: Kept = timedelta(days=30)
    ended: Kept = timedelta(days=180)
    keys: Kept = timedelta(days=30)
    processes: Kept = timedelta(days=7)
    quarantine: Kept = timedelta(days=30)
    tick: Wait = timedelta(minutes=1)


class ArtifactSettings(_Group):
    """Where artifacts are staged, and how long each is kept there."""

    url: ArtifactsUrl | None = None
    options: StoreOptions = Field(default_factory=dict[str, SecretStr])
    keep: Annotated[UpToYear, between(timedelta(minutes=1), timedelta(days=365))] = timedelta(days=7)
    grace: UpToYear = timedelta(hours=1)
    keep_rejected: UpToYear = timedelta(days=1)
    incomplete: UpToYear = timedelta(hours=1)
    sweep: Wait = timedelta(minutes=1)
    remove_orphans_after: Annotated[Duration, between(timedelta(hours=1), timedelta(days=365))] | None = None
    max_size: Size = 64 * 2**30


class TelemetrySettings(_Group):
    """What processes tell of themselves beside what the standard's OTEL_ variables say."""

    topology: Literal["auto", "parent", "link"] = "auto"
    join_window: Annotated[Duration, between(timedelta(0), timedelta(days=1))] = timedelta(seconds=60)
    metrics_port: Port | None = None
    metrics_host: Host = "127.0.0.1"
    latency_objective: UpToDay = timedelta(seconds=60)


class LogSettings(_Group):
    """How log lines are written."""

    format: Literal["text", "json"] = "text"


class _Variables(EnvSettingsSource):
    """Options of a store as a table, which is joined with that of the file: there is the endpoint, here the secret."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ARG002  # not ours
        """Whatever is no table is left to the key's own check, which says so."""
        if NoDecode in field.metadata:
            return value
        try:
            return options_table(value)
        except ValueError:
            return value


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

    database_url: DatabaseUrl | None = None
    broker_url: BrokerUrl | None = None
    app: str | None = None
    worker: WorkerSettings = WorkerSettings()
    broker: BrokerSettings = BrokerSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    retention: RetentionSettings = RetentionSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as below
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # not read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The order in which values are looked for."""
        return init_settings, _Variables(settings_cls), TomlConfigSettingsSource(settings_cls, config_file())

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
