"""How a client works, and where it learns that."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.told import store_options
from brokerjobs.broker.connection import HEARTBEAT
from brokerjobs.broker.publisher import TIME_LIMIT
from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import texts
from brokerjobs.settings_loading import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME_LIMIT: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client works.

    `patience` is how long a submission is asked again while the ledger gives no answer; `answer` how long a thread
    waits for one, since nobody can cancel it: a statement of ours waits for locks two seconds at most.
    """

    submitted_by: str
    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    patience: timedelta = timedelta(seconds=5)
    answer: timedelta = timedelta(seconds=10)
    publish_timeout: timedelta = TIME_LIMIT
    heartbeat: timedelta = HEARTBEAT
    artifacts: StoreOptions = field(default_factory=StoreOptions)

    def __post_init__(self) -> None:
        name = self.submitted_by
        if not (0 < len(name) <= _NAME_LIMIT and texts.storable(name) == name):
            message = f"submitted_by={name!r:.80} is not a text of 1 to {_NAME_LIMIT} characters; name your service"
            raise ConfigurationError(message)


def client_options(submitted_by: str, database_url: str | None, broker_url: str | None) -> ClientOptions:
    """The options of this process's settings, of which the URLs may be given. Raises ConfigurationError."""
    given = {"database_url": database_url, "broker_url": broker_url}
    settings = load_settings({key: value for key, value in given.items() if value is not None})
    return ClientOptions(
        submitted_by=submitted_by,
        database_url=_url(settings.need_database_url, "database_url"),
        broker_url=_url(settings.need_broker_url, "broker_url"),
        publish_timeout=settings.broker.publish_timeout,
        heartbeat=settings.broker.heartbeat,
        artifacts=store_options(settings.artifacts),
    )


def _url(need: Callable[[], str], key: str) -> str:
    """As `need`; where it is not set, the message says what code can do about it."""
    try:
        return need()
    except ConfigurationError as error:
        message = f"{error}; or app.client({key}=…)"
        raise ConfigurationError(message) from None
