"""From the settings of a process to what its store is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.artifacts.locations import StoreOptions, default_folder, located
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from brokerjobs.settings import ArtifactSettings


def store_options(told: ArtifactSettings) -> StoreOptions:
    """The store that the settings name; raises ConfigurationError if their URL names none."""
    if told.url is not None:
        located(told.url)
    return StoreOptions(
        url=told.url,
        options={key: value.get_secret_value() for key, value in told.options.items()},
        max_size=told.max_size,
        keep=told.keep,
    )


def store_of(told: ArtifactSettings) -> ArtifactStore | None:
    """That store; None if there is none, which is so for a user without a home if the settings name none.

    Raises ConfigurationError.
    """
    if told.url is None:
        try:
            default_folder()
        except (ConfigurationError, RuntimeError):
            return None
    return ArtifactStore(store_options(told))
