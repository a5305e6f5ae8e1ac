"""Whatever an artifact is made of is read in pieces, once, and hashed on the way."""

from __future__ import annotations

import array
import asyncio
import hashlib
import io
import os
import resource
import threading
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.artifacts.pump import PIECE
from brokerjobs.artifacts.sources import Reading, Source, opened
from brokerjobs.artifacts.transfers import Stop, Stopped, in_thread
from brokerjobs.errors import ArtifactTooLarge, InvalidArtifact
from tests.artifacts.objects import MIB, mebibytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

FILES = Path("/proc/self/fd")
LIMIT = 64 * MIB
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def reading(stop: Stop | None = None, limit: int = LIMIT) -> Reading:
    loop = None
    with suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    return Reading("an artifact", limit, stop or Stop(), loop)


def read(source: Source, how: Reading) -> tuple[bytes, int, str]:
    """All of a source, with the size and the hash that were found on the way."""
    with opened(source, how) as pieces:
        content = bytearray()
        for piece in pieces:
            assert 0 < len(piece) <= PIECE
            content += piece
        return bytes(content), pieces.size, pieces.sha256


async def read_async(source: Source, how: Reading | None = None) -> tuple[bytes, int, str]:
    wanted = how or reading()
    return await in_thread(lambda _: read(source, wanted))


def expected(content: bytes) -> tuple[bytes, int, str]:
    return content, len(content), hashlib.sha256(content).hexdigest()


async def given_async(chunks: Iterable[Any]) -> AsyncIterator[Any]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


class Stuttering(io.RawIOBase):
    """A file that gives less than it is asked for."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self._rest = io.BytesIO(content)
        self._sizes = sizes

    def read(self, size: int = -1, /) -> bytes:
        return self._rest.read(min(size, self._sizes.pop() if self._sizes else size))


@given(st.lists(st.binary(max_size=50)))
def test_chunks__any_division_gives_the_same(chunks: list[bytes]) -> None:
    content = b"".join(chunks)
    sizes = [len(chunk) for chunk in chunks if chunk]
    mixed = [memoryview(chunk) if len(chunk) % 2 else bytearray(chunk) for chunk in chunks]
    for source in (chunks, iter(chunks), (chunk for chunk in mixed), content, Stuttering(content, sizes)):
        assert read(source, reading()) == expected(content)

    async def both() -> None:
        assert await read_async(given_async(mixed)) == expected(content)

    asyncio.run(both())


def test_kinds__that_are_read(tmp_path: Path) -> None:
    content = b"".join(mebibytes(3)) + b"rest"
    file = tmp_path / "file"
    file.write_bytes(content)
    (tmp_path / "link").symlink_to(file)
    words = array.array("I", content[: 2 * PIECE])
    for source in (file, str(file), tmp_path / "link", content, bytearray(content), memoryview(content)):
        assert read(source, reading()) == expected(content)
    assert read(memoryview(words), reading()) == expected(content[: 2 * PIECE])
    with file.open("rb") as opened_file:
        opened_file.seek(5)
        assert read(opened_file, reading()) == expected(content[5:])
        assert not opened_file.closed
    assert read(b"", reading()) == expected(b"")
    assert read([], reading()) == expected(b"")
    assert read([b"", content, b""], reading()) == expected(content)


async def test_async_kinds__that_are_read() -> None:
    content = b"".join(mebibytes(3)) + b"rest"
    assert await read_async(given_async([content, b"", content])) == expected(content * 2)
    stream = asyncio.StreamReader()
    stream.feed_data(content)
    stream.feed_eof()
    assert await read_async(stream) == expected(content)


async def test_async_source__is_read_in_one_task_and_the_context_of_the_handler() -> None:
    seen: set[tuple[Any, str]] = set()

    async def limited() -> AsyncIterator[bytes]:
        async with asyncio.timeout(30), asyncio.TaskGroup():  # which end in the task that began them, or fail
            for _ in range(5):
                seen.add((asyncio.current_task(), WHO.get()))
                yield b"1"

    WHO.set("the handler")
    assert await read_async(limited()) == expected(b"11111")
    assert [who for _, who in seen] == ["the handler"]


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ("no such file", "No such file.*text itself is to be encoded"),
        ("nul\x00byte", "cannot be read"),
        ("x" * 5000, "too long"),
        (io.StringIO("text"), "text mode"),
        (["text"], "gave a str, not bytes; encode it"),
        ([b"1", 2], "gave a int, not bytes"),
        ({"a": 1}, "gave a str, not bytes"),
        (memoryview(b"123456")[::2], "not contiguous"),
        (None, "a NoneType; give a path"),
        (7, "a int; give a path"),
    ],
)
def test_kinds__that_are_refused(thing: Any, said: str) -> None:
    with pytest.raises(InvalidArtifact, match=said):
        read(thing, reading())


def test_files__that_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, said in [
        ("", "is a folder"),
        ("pipe", "no regular file"),
        ("loop", "symbolic links"),
        ("none", "No such"),
    ]:
        with pytest.raises(InvalidArtifact, match=said):
            read(tmp_path / name, reading())
    with (tmp_path / "text").open("w+") as text, pytest.raises(InvalidArtifact, match="text mode"):
        read(text, reading())
    ours, other = os.pipe()
    os.set_blocking(ours, False)
    with open(ours, "rb", buffering=0) as idle, pytest.raises(InvalidArtifact, match="does not block"):  # noqa: PTH123
        read(idle, reading())
    os.close(other)


def test_file__that_cannot_be_opened_just_now_is_no_fault_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    how = reading()
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            read(tmp_path / "file", how)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert read(tmp_path / "file", how) == expected(b"1")


def test_async_source__without_a_loop_is_refused() -> None:
    class Body:
        async def read(self, _: int) -> bytes:
            return b""

    for thing in (given_async([b"1"]), Body()):
        with pytest.raises(InvalidArtifact, match="handlers in processes"):
            read(thing, reading())


def test_limit__is_found_before_a_file_is_read_and_while_others_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    taken: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield b"1"

    for source in (tmp_path / "file", b"12345", endless()):
        with pytest.raises(ArtifactTooLarge, match="limit of 4 bytes"):
            read(source, reading(limit=4))
    assert len(taken) == 5
    assert read(b"1234", reading(limit=4)) == expected(b"1234")


def test_file__that_grows_is_what_was_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1" * PIECE)
    with opened(file, reading()) as pieces:
        content = bytes(next(pieces))
        with file.open("ab") as more:
            more.write(b"2")
        content += b"".join(pieces)
        assert (content, pieces.size, pieces.sha256) == expected(content)


def test_closing__closes_what_was_opened_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1" * 3 * PIECE)
    closed: list[str] = []

    def source() -> Iterator[bytes]:
        try:
            yield b"1"
            yield b"2"
        finally:
            closed.append("generator")

    before = len(list(FILES.iterdir()))
    with opened(tmp_path / "file", reading()) as pieces:
        next(pieces)
    with opened(source(), reading()) as pieces:
        next(pieces)
    assert closed == ["generator"]
    with opened(tmp_path / "file", reading()):
        pass
    assert len(list(FILES.iterdir())) == before


async def test_async_source__is_closed_when_reading_ends_early() -> None:
    closed = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"1" * PIECE
        finally:
            closed.set()

    with pytest.raises(ArtifactTooLarge):
        await read_async(source(), reading(limit=3 * PIECE))
    await asyncio.wait_for(closed.wait(), 5)


async def test_async_source__is_not_read_ahead_without_bound() -> None:
    taken, wait = 0, threading.Event()

    async def source() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < 50:
            taken += 1
            yield b"1"

    def slowly(how: Reading, _: Stop) -> int:
        with opened(source(), how) as pieces:
            next(pieces)
            wait.wait(5)
            early = taken
            return early + 0 * sum(1 for _ in pieces)

    running = asyncio.create_task(in_thread(partial(slowly, reading())))
    for _ in range(1000):
        await asyncio.sleep(0)
    wait.set()
    assert await running <= 4


def changing() -> Iterator[memoryview]:
    """One buffer that is filled again and again, as readinto does it."""
    buffer = bytearray(4)
    for number in range(20):
        buffer[:] = number.to_bytes(4, "big")
        yield memoryview(buffer)


CHANGING = b"".join(number.to_bytes(4, "big") for number in range(20))


def test_buffer__that_its_source_fills_again_is_what_was_given() -> None:
    with opened(changing(), reading()) as pieces:
        kept = [*pieces]  # a bucket's library keeps them until it has a part
    assert b"".join(kept) == CHANGING
    assert pieces.sha256 == expected(CHANGING)[2]


async def test_buffer__that_its_async_source_fills_again_is_what_was_given() -> None:
    assert await read_async(given_async(changing())) == expected(CHANGING)


class NeverIterated:
    """An async iterable by its looks."""

    async def __aiter__(self) -> AsyncIterator[bytes]:  # a common mistake: it is a plain method that is asked for
        raise NotImplementedError


async def test_async_source__that_cannot_be_iterated_is_an_error() -> None:
    source: Any = NeverIterated()
    with pytest.warns(RuntimeWarning, match="never awaited"), pytest.raises(TypeError, match="not an async iterator"):
        await asyncio.wait_for(read_async(source), 5)


async def test_error_of_an_async_source__passes_as_it_is() -> None:
    error = KeyError("of the source")

    async def source() -> AsyncIterator[bytes]:
        yield b"1"
        raise error

    with pytest.raises(KeyError) as raised:
        await read_async(source())
    assert raised.value is error


async def test_stop__ends_a_source_that_gives_nothing() -> None:
    begun, stop = asyncio.Event(), Stop()
    ended: list[str] = []

    async def silent() -> AsyncIterator[bytes]:
        try:
            begun.set()
            await asyncio.sleep(60)
            yield b"1"
        finally:
            ended.append("cancelled")

    waiting = asyncio.create_task(read_async(silent(), reading(stop)))
    await begun.wait()
    stop.set()
    with pytest.raises(Stopped):
        await asyncio.wait_for(waiting, 5)
    assert ended == ["cancelled"]


def test_stop__ends_at_the_next_chunk() -> None:
    stop = Stop()
    taken: list[int] = []

    def source() -> Iterator[bytes]:
        for number in range(5):
            taken.append(number)
            if number == 2:
                stop.set()
            yield b"1"

    with pytest.raises(Stopped):
        read(source(), reading(stop))
    assert taken == [0, 1, 2]
