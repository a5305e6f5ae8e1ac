"""What a worker says of handlers that its processes cannot have."""

from __future__ import annotations

import asyncio
import resource
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger.database import AsyncLedgerConnection, ConnectOptions
from brokerjobs.worker.processes import Processes
from brokerjobs.worker.uploads import Uploads
from tests.flow import pooled
from tests.waiting import eventually

if TYPE_CHECKING:
    from brokerjobs import JobType
    from brokerjobs.context import ProcessJobContext

app = App("processes")


crowded = app.job_type("crowded", list[str], str, repeatable=True)
crowded.handler(pool="process")(pooled.follow)


def processes(kind: JobType[Any, Any]) -> Processes:
    ledger = AsyncLedgerConnection(ConnectOptions("postgresql://127.0.0.1:1/nothing"))  # asked for nothing here
    return Processes([kind], 1, Uploads(ledger), StoreOptions())


async def asynchronous(payload: int) -> int:
    return payload


def sync(payload: int, ctx: ProcessJobContext) -> int:
    return payload


def test_handler__of_a_process_must_be_sync() -> None:
    with pytest.raises(ConfigurationError, match=r"is for `def`; an `async def` runs on the event loop"):
        app.job("async", repeatable=True, pool="process")(asynchronous)


def test_handler__of_a_process_must_be_at_the_top_of_a_module() -> None:
    def inner(payload: int) -> int:
        return payload

    with pytest.raises(ConfigurationError, match="must be defined at the top of a module"):
        app.job("inner", repeatable=True, pool="process")(inner)


def test_handler__must_be_asked_for_in_a_pool_that_there_is() -> None:
    wrong: Any = "fibre"
    with pytest.raises(ConfigurationError, match="neither 'thread' nor 'process'"):
        app.job("fibre", repeatable=True, pool=wrong)(sync)


async def test_processes__that_lack_a_handler_say_what_to_do() -> None:
    kind = app.job_type("elsewhere", list[str], str, repeatable=True)
    kind.handler(pool="process")(pooled.follow)

    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(processes(kind).run(), 30)

    (error,) = raised.value.exceptions
    assert isinstance(error, ConfigurationError)
    assert "tests.flow.pooled lacks the handler of elsewhere" in str(error)


async def test_processes__that_cannot_start_say_so_and_try_again(caplog: pytest.LogCaptureFixture) -> None:
    def elsewhere(payload: int) -> int:
        return payload

    elsewhere.__module__, elsewhere.__qualname__ = "there.is.none", "elsewhere"
    kind = app.job_type("nowhere", int, int, repeatable=True)
    kind.handler(pool="process")(elsewhere)
    starting = asyncio.create_task(processes(kind).run())

    async def twice() -> bool:
        return caplog.text.count("a process for handlers did not start (exit code 1)") == 2

    await eventually(twice, 30)
    assert not starting.done()  # and would go on
    starting.cancel()
    await asyncio.wait({starting})


async def test_processes__that_the_system_refuses_are_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    starting = asyncio.create_task(processes(crowded).run())
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:

        async def twice() -> bool:
            return caplog.text.count("a process for handlers cannot be started: [Errno 24]") == 2

        await eventually(twice, 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not starting.done()
    starting.cancel()
    await asyncio.wait({starting})


async def test_processes__are_none_if_nobody_wants_them() -> None:
    kind = app.job_type("in.thread", int, int, repeatable=True)
    kind.handler(sync)  # it takes what a thread is given as well

    running = asyncio.create_task(processes(kind).run())
    ended, _ = await asyncio.wait({running}, timeout=30)

    assert ended == {running}
    running.result()


async def test_processes__whose_end_is_told_before_they_can_be_waited_for_do_not_end_the_worker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def still_runs(_process: BaseProcess) -> None:
        message = "Cannot close a process while it is still running."
        raise ValueError(message)

    monkeypatch.setattr(BaseProcess, "close", still_runs)
    kind = app.job_type("unclosed", int, int, repeatable=True)

    def elsewhere(payload: int) -> int:
        return payload

    elsewhere.__module__, elsewhere.__qualname__ = "there.is.none", "elsewhere"
    kind.handler(pool="process")(elsewhere)
    starting = asyncio.create_task(processes(kind).run())

    async def again() -> bool:
        return starting.done() or caplog.text.count("a process for handlers did not start (exit code 1)") == 2

    await eventually(again, 30)
    assert not starting.done()
    starting.cancel()
    await asyncio.wait({starting})
