"""What stores complain of, as errors of ours: one line, without secrets, in the classes that retries look at."""

from __future__ import annotations

import errno
import re
from typing import Final, TypeAlias

from brokerjobs.errors import ArtifactStoreFull, ArtifactStoreRefused, ArtifactStoreUnavailable
from brokerjobs.rules import texts

StoreError: TypeAlias = ArtifactStoreFull | ArtifactStoreRefused | ArtifactStoreUnavailable
STORE_ERRORS: Final = (ArtifactStoreFull, ArtifactStoreRefused, ArtifactStoreUnavailable)

_LONGEST: Final = 400
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED: Final = frozenset({
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG,
})  # fmt: skip
# object_store says "Server returned non-2xx status code: 403 Forbidden: BODY"; S3, GCS and Azure answer XML.
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,80})</Code>")
# How object_store says what it asked for, how long it took and what became of it, behind words that add nothing.
_REQUEST: Final = re.compile(r".*Error performing ([A-Z]{3,7}) (\S{1,2000}) in \S.*? - (.*)")
_QUERY: Final = re.compile(r"(https?://[^\s?#]{1,2000})[?#]\S*")
_NO_ROOM: Final = re.compile(
    r"StorageFull|QuotaExceeded|InsufficientStorage|No space left on device|Disk quota exceeded|File too large"
)
_ENDED: Final = "NoSuchUpload"  # by the store, or by whoever looks after it: another upload may succeed
_BUSY: Final = frozenset({408, 416, 425, 429})  # 416: the object was another one when it was looked at
# Neither a network nor a server said these: they come again each time.
_OWN_FAULTS: Final = frozenset({
    "PermissionDeniedError", "UnauthenticatedError", "NotSupportedError", "InvalidPathError", "ValueError",
})  # fmt: skip


class MissingObject(Exception):
    """There is no object under this path, in a store that is there."""


def of_folder(error: OSError, store: str) -> StoreError:
    """What the operating system said of a file or folder of the store."""
    problem = texts.first_part(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 400)
    if error.errno in _FULL:
        return ArtifactStoreFull(store=store, problem=problem)
    if error.errno in _REFUSED:
        return ArtifactStoreRefused(store=store, problem=problem)
    return ArtifactStoreUnavailable(store=store, problem=problem)


def refused(store: str, problem: str) -> ArtifactStoreRefused:
    """What we say of a store ourselves."""
    return ArtifactStoreRefused(store=store, problem=problem)


def of_remote(error: Exception, store: str) -> StoreError:
    """What obstore said: the first line of it, without the queries of URLs, which may be signed."""
    text = str(error)
    problem = one_line(text)
    status = _STATUS.search(text)
    number = int(status[1]) if status else None
    if number == 507 or _NO_ROOM.search(text):
        return ArtifactStoreFull(store=store, problem=problem)
    if type(error).__name__ in _OWN_FAULTS or "builder error" in text:
        return ArtifactStoreRefused(store=store, problem=problem)
    if number is not None and 400 <= number < 500 and number not in _BUSY and _ENDED not in text:
        return ArtifactStoreRefused(store=store, problem=problem)
    return ArtifactStoreUnavailable(store=store, problem=problem)


def one_line(text: str) -> str:
    """A text of a store fit to be stored and shown."""
    code = _CODE.search(text)
    first = text.partition("\n")[0].removesuffix('<?xml version="1.0" encoding="UTF-8"?>').rstrip(" :")
    first = _QUERY.sub(r"\1", first)
    if (asked := _REQUEST.fullmatch(first)) is not None:
        first = f"{asked[1]} {asked[2]}: {asked[3].replace('Server returned non-2xx status code:', 'status')}"
    if code is not None and code[1] not in first:
        first = f"{first} ({code[1]})"
    return texts.first_part(first, _LONGEST)
