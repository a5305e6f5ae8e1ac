"""What every kind of store promises: a folder, a bucket, and one whose server does ranges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts.store import ArtifactStore, MissingObject
from tests.artifacts.objects import MIB, mebibytes, path

if TYPE_CHECKING:
    from collections.abc import Iterator

# A part is 8 MiB: nothing, less than one, exactly one, and some with a rest.
SIZES = (0, 3, 8 * MIB, 20 * MIB + 7)


@pytest.mark.parametrize("size", SIZES)
def test_put__is_read_back(store: ArtifactStore, size: int) -> None:
    content = b"".join(mebibytes(size // MIB)) + b"x" * (size % MIB)
    where = path()
    pieces = (content[start : start + MIB] for start in range(0, size, MIB))
    store.put(where, pieces)
    assert store.size(where) == size
    assert b"".join(store.read(where)) == content


def test_put__replaces_nothing_else(store: ArtifactStore) -> None:
    one, other = path(), path()
    store.put(one, iter([b"one"]))
    store.put(other, iter([b"other"]))
    assert (b"".join(store.read(one)), b"".join(store.read(other))) == (b"one", b"other")


@pytest.mark.parametrize("error", [KeyError("of the source"), FileNotFoundError(2, "of the source"), OSError(28, "x")])
@pytest.mark.parametrize("count", [1, 20])
def test_put__error_of_the_source_passes_and_leaves_nothing(store: ArtifactStore, error: Exception, count: int) -> None:
    where = path()

    def breaking() -> Iterator[bytes]:
        yield from mebibytes(count)
        raise error

    with pytest.raises(type(error)) as raised:
        store.put(where, breaking())
    assert raised.value is error
    assert store.size(where) is None
    assert store.page(None, 10) == []


def test_missing__is_said_before_the_first_piece(store: ArtifactStore) -> None:
    where = path()
    assert store.size(where) is None
    with pytest.raises(MissingObject):
        next(store.read(where))


def test_delete__twice_is_harmless(store: ArtifactStore) -> None:
    where, other = path(), path()
    store.put(where, iter([b"1"]))
    store.put(other, iter([b"2"]))
    store.delete(where)
    store.delete(where)
    assert store.size(where) is None
    assert store.page(None, 10) == [(other, 1)]


def test_page__goes_through_all_in_order(store: ArtifactStore) -> None:
    # "-" is before "/", and "0" behind it: the order is that of whole paths.
    paths = ["a-b/c", "a/b/c", "a/b/d", "a/c", "a0/b", "b"]
    for number, each in enumerate(paths):
        store.put(each, iter([b"x" * number]))
    whole = [(each, number) for number, each in enumerate(paths)]
    assert store.page(None, 100) == whole
    found: list[tuple[str, int]] = []
    for _ in range(len(paths) + 1):
        page = store.page(found[-1][0] if found else None, 2)
        assert len(page) <= 2
        found += page
    assert found == whole


@pytest.mark.parametrize("bad", ["", "/a", "a/", "../a", "a/../b", "a//b", ".a/b", "a\x00b", "a b", "a\nb", "x" * 200])
def test_paths__that_the_ledger_never_makes_are_refused(store: ArtifactStore, bad: str) -> None:
    for call in (store.size, store.delete, store.read, partial(store.put, chunks=iter([b"1"]))):
        with pytest.raises(ValueError, match="no path of an object"):
            call(bad)
    assert store.page(None, 10) == []


def test_problems__none(store: ArtifactStore) -> None:
    assert store.problems() == []
