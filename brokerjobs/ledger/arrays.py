"""Lists that go to PostgreSQL as arrays in its binary format, made in a few steps for all their elements.

psycopg dumps, quotes and escapes the elements of a list one by one; ids and moments as text cost as much again, since
Python makes their text slowly: together a sixth of what a claim and a report took of a worker's time (measured).
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper

if TYPE_CHECKING:
    from uuid import UUID

_NULL: Final = b"\xff\xff\xff\xff"
_HEAD: Final = struct.Struct(">iiIii")  # dimensions, NULLs (maybe), the elements' type, how many, first index
_SIZE: Final = struct.Struct(">i")
_MOMENT: Final = struct.Struct(">iq")
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts microseconds from here


class Uuids(list["UUID | None"]):
    """A uuid[]."""


class Moments(list["datetime | None"]):
    """A timestamptz[] of aware datetimes."""


class Texts(list[str]):
    """A text[]."""


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: list[Any]) -> bytes:
        if not obj:
            return struct.pack(">iiI", 0, 0, self.element)
        return _HEAD.pack(1, 1, self.element, len(obj), 1) + self.elements(obj)

    def elements(self, values: list[Any]) -> bytes:
        raise NotImplementedError


class _UuidsDumper(_ArrayDumper):
    oid = psycopg.postgres.types["uuid"].array_oid
    element = psycopg.postgres.types["uuid"].oid

    def elements(self, values: list[UUID | None]) -> bytes:
        size = _SIZE.pack(16)
        return b"".join([_NULL if value is None else size + value.bytes for value in values])


class _MomentsDumper(_ArrayDumper):
    oid = psycopg.postgres.types["timestamptz"].array_oid
    element = psycopg.postgres.types["timestamptz"].oid

    def elements(self, values: list[datetime | None]) -> bytes:
        return b"".join([_NULL if value is None else _MOMENT.pack(8, _microseconds(value)) for value in values])


class _TextsDumper(_ArrayDumper):
    oid = psycopg.postgres.types["text"].array_oid
    element = psycopg.postgres.types["text"].oid

    def elements(self, values: list[str]) -> bytes:
        encoded = [value.encode() for value in values]
        return b"".join([part for value in encoded for part in (_SIZE.pack(len(value)), value)])


def _microseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


for _kind, _dumper in ((Uuids, _UuidsDumper), (Moments, _MomentsDumper), (Texts, _TextsDumper)):
    psycopg.adapters.register_dumper(_kind, _dumper)
