"""Where artifacts are staged: a folder, or a bucket and a prefix in it, named by a URL without secrets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The schemes of each kind of store, and the environment variables that it reads when options do not say.
_S3: Final = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
_GOOGLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_AZURE: Final = "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY"
REMOTE: Final[Mapping[str, str]] = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GOOGLE,
    **dict.fromkeys(("az", "adl", "azure", "abfs", "abfss"), _AZURE),
}
_KINDS: Final = "file:///FOLDER, an absolute path, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
# abfss://FILE_SYSTEM@ACCOUNT.dfs.core.windows.net: what stands where others have a user is no secret.
_CONTAINER_AS_USER: Final = frozenset({"abfs", "abfss"})
_LOCAL_HOSTS: Final = frozenset({"", "localhost"})


def _no_options() -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """The settings of the group `artifacts` that whoever stages or fetches needs."""

    url: str | None = None
    """None: a folder of this user, `$XDG_DATA_HOME/brokerjobs/artifacts`."""
    options: Mapping[str, str] = field(default_factory=_no_options, repr=False)
    """Keys and values for the store (`endpoint`, `region`, `access_key_id`, …): what is not said here is taken from the
    store's own environment variables."""
    max_size: int = 64 * 2**30
    """Bytes of one artifact at most."""
    keep: timedelta = timedelta(days=7)
    """How long after its job's end an artifact is kept if nobody acknowledges it."""


@dataclass(frozen=True)
class Location:
    """A store by the name that is recorded of it; `folder` if it is one of this machine's."""

    public: str
    folder: Path | None = None


def located(url: str | None) -> Location:
    """Reads artifacts.url; raises ConfigurationError, which never repeats what may be a secret."""
    if url is None:
        try:
            return _folder(default_folder())
        except RuntimeError:
            message = f"artifacts.url is not set, and this user has no home folder to stage in; give {_KINDS}"
            raise ConfigurationError(message) from None
    if url.startswith("/"):
        return _folder(Path(url))
    try:
        parts = urlsplit(url)
    except ValueError:
        message = f"artifacts.url is no URL; give {_KINDS}"
        raise ConfigurationError(message) from None
    if not url.isprintable() or " " in url or not parts.scheme:
        message = f"artifacts.url is neither an absolute path nor a URL; give {_KINDS}"
        raise ConfigurationError(message)
    return _local(parts) if parts.scheme == "file" else _remote(parts)


def default_folder() -> Path:
    """Where artifacts are staged if nothing is set: in the user's own data, which no other machine sees.

    Raises RuntimeError for a user without a home folder.
    """
    data = os.environ.get("XDG_DATA_HOME", "")
    root = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return root / "brokerjobs" / "artifacts"


def _folder(folder: Path) -> Location:
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  # without following links: the name that was given stays
    if folder == Path("/") or not str(folder).isprintable():
        message = "artifacts.url must name a folder for artifacts alone, with printable characters"
        raise ConfigurationError(message)
    return Location(folder.as_uri(), folder)


def _local(parts: SplitResult) -> Location:
    if parts.netloc not in _LOCAL_HOSTS or not parts.path.startswith("/") or parts.query or parts.fragment:
        message = "artifacts.url: a file URL is file:///FOLDER, of this machine and without ? and #"
        raise ConfigurationError(message)
    return _folder(Path(unquote(parts.path)))


def _remote(parts: SplitResult) -> Location:
    scheme = parts.scheme
    if scheme == "memory":
        message = f"artifacts.url: {scheme}:// is of one process alone, and no consumer would see it; give {_KINDS}"
        raise ConfigurationError(message)
    if (variables := REMOTE.get(scheme)) is None:
        message = f"artifacts.url: there is no store for {scheme}://; give {_KINDS}"
        raise ConfigurationError(message)
    user, at, host = parts.netloc.rpartition("@")
    if parts.query or parts.fragment or (at and (scheme not in _CONTAINER_AS_USER or not user or ":" in user)):
        message = (
            f"artifacts.url: {scheme}:// takes no user, password, ? or #, since the URL is recorded and shown; "
            f"put secrets into artifacts.options, or into the environment ({variables})"
        )
        raise ConfigurationError(message)
    segments = [segment for segment in parts.path.split("/") if segment]
    if not host or ".." in segments or "." in segments:
        message = f"artifacts.url: {scheme}:// needs the name of a bucket, and a prefix without . and .. after it"
        raise ConfigurationError(message)
    return Location("/".join([f"{scheme}://{parts.netloc}", *segments]))
