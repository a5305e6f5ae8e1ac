"""The worker process of the benchmark: one job type whose handler does nothing, one that tells how late it starts.

BROKERJOBS_TEST_HANDLER says where the handler's body runs, to measure what other shapes of a worker would cost:
`direct` on the worker's loop, as the product does; `loop` on a second loop in another thread; `process` in a second
process, over a socket.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import socket
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING

from brokerjobs import App
from brokerjobs.settings_loading import load_settings
from brokerjobs.wiring import run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

app = App(os.environ.get("BROKERJOBS_TEST_NAMESPACE", "bench"))
_CALL = struct.Struct("!QQ")


@app.job("noop", repeatable=True)
async def noop(payload: int) -> None:
    """Nothing, wherever it is to be done."""
    await body(payload)


@app.job("stamp", repeatable=True)
async def stamp(payload: float) -> float:
    """Seconds since the moment in the payload, by this machine's clock."""
    return time.time() - payload


async def _nothing(_: int) -> None:
    pass


body: Callable[[int], Awaitable[None]] = _nothing


def _on_a_second_loop() -> Callable[[int], Awaitable[None]]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def call(payload: int) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_nothing(payload), loop))

    return call


def _in_a_second_process() -> Callable[[int], Awaitable[None]]:
    here, there = socket.socketpair()
    multiprocessing.get_context("fork").Process(target=_echo, args=(there,), daemon=True).start()
    there.close()
    numbers = itertools.count()
    waiting: dict[int, asyncio.Future[None]] = {}
    writers: list[asyncio.StreamWriter] = []
    readings: list[asyncio.Task[None]] = []
    opening = asyncio.Lock()

    async def read(reader: asyncio.StreamReader) -> None:
        while True:
            number, _ = _CALL.unpack(await reader.readexactly(_CALL.size))
            waiting.pop(number).set_result(None)

    async def call(payload: int) -> None:
        async with opening:
            if not writers:
                reader, writer = await asyncio.open_connection(sock=here)
                writers.append(writer)
                readings.append(asyncio.create_task(read(reader)))
        number = next(numbers)
        waiting[number] = asyncio.get_running_loop().create_future()
        writers[0].write(_CALL.pack(number, payload))
        await waiting[number]

    return call


def _echo(there: socket.socket) -> None:
    """The second process: does nothing for each call, and says so."""

    async def serve() -> None:
        reader, writer = await asyncio.open_connection(sock=there)
        while call := await reader.read(_CALL.size * 1000):
            await _nothing(0)
            writer.write(call)

    asyncio.run(serve())


if __name__ == "__main__":
    match os.environ.get("BROKERJOBS_TEST_HANDLER", "direct"):
        case "loop":
            body = _on_a_second_loop()
        case "process":
            body = _in_a_second_process()
        case _:
            pass
    sys.exit(run_worker(app, load_settings()))
