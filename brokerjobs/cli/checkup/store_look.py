"""A look at the store of artifacts that the settings name: a probe object is written, read and removed."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from brokerjobs.artifacts.locations import located
from brokerjobs.artifacts.told import store_of
from brokerjobs.artifacts.transfers import in_thread
from brokerjobs.errors import ArtifactError, ArtifactStoreRefused, ArtifactStoreUnavailable, ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.ledger.inspection import LedgerLook
    from brokerjobs.settings import Settings

_SECONDS: Final = 90.0  # more than a store takes to say that it gives no answer
_CONTENT: Final = b"brokerjobs doctor"


@dataclass(frozen=True, slots=True)
class StoreLook:
    """A store that works; `probed`: it was tried; `problems`: what a person should mend all the same."""

    store: str
    probed: bool
    problems: tuple[str, ...] = ()


def look(settings: Settings, ledger: LedgerLook | None) -> StoreLook | None:
    """Tries the store, unless nothing was ever staged in it and no settings name it; None if there is none.

    Raises ConfigurationError, ArtifactStoreUnavailable, ArtifactStoreRefused, ArtifactStoreFull.
    """
    told = settings.artifacts
    if (store := store_of(told)) is None:
        return None
    folder = located(told.url).folder
    staged = sum(one.artifacts for one in ledger.stores if one.store == store.public) if ledger else 0
    there = folder is None or os.path.exists(folder)  # noqa: PTH110  # no error where one may not look
    obstacle = None if folder is None else _obstacle(folder)
    if not there:
        if staged:
            message = (
                f"artifacts are recorded in {store.public}, and there is no such folder on this machine; mount it, or "
                "set artifacts.url to where it is"
            )
            raise ConfigurationError(message)
        if told.url is not None and obstacle:
            raise ArtifactStoreRefused(store=store.public, problem=obstacle)
    if told.url is None and not staged:
        # Nobody has asked for it: who hands nothing over needs none.
        problem = f"artifacts cannot be staged in {store.public}, the default: {obstacle}: set artifacts.url"
        return StoreLook(store.public, probed=False, problems=(problem,) if obstacle else ())
    if not there:
        # Not made here: it belongs to whoever stages the first artifact.
        return StoreLook(store.public, probed=False)
    return asyncio.run(_tried(store))


def _obstacle(folder: Path) -> str | None:
    """Why this user can neither write to the folder nor make it, as far as rights tell; nothing is made to find out."""
    nearest = folder
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    if not nearest.is_dir():
        return f"{nearest} is no folder"
    if not os.access(nearest, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return f"this user may not write to {nearest}"
    return None


async def _tried(store: ArtifactStore) -> StoreLook:
    try:
        async with asyncio.timeout(_SECONDS):
            problems = await in_thread(lambda _: _probe(store))
    except TimeoutError:
        problem = f"a probe was not written, read and removed within {_SECONDS:g} s"
        raise ArtifactStoreUnavailable(store=store.public, problem=problem) from None
    return StoreLook(store.public, probed=True, problems=tuple(problems))


def _probe(store: ArtifactStore) -> list[str]:
    # A name that the ledger gives to no object: no sweeper looks at it.
    path = f"doctor-{secrets.token_hex(8)}"
    problems = store.problems()
    try:
        store.put(path, iter([_CONTENT]))
        found = b"".join(bytes(piece) for piece in store.read(path))
    except BaseException:
        with suppress(ArtifactError):  # what was raised first says more
            store.delete(path)
        raise
    store.delete(path)
    if found != _CONTENT:
        problems.append(f"{store.public} gave back {len(found)} other bytes than were written")
    return problems
