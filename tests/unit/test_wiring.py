"""What a worker is told is what the settings say, or what they say by default."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokerjobs import App, wiring
from brokerjobs.broker.brokers import broker_at
from brokerjobs.settings import WorkerSettings
from brokerjobs.settings_loading import load_settings
from brokerjobs.worker.options import WorkerOptions

if TYPE_CHECKING:
    import pytest

    from brokerjobs.worker.options import Duty

URLS = {"database_url": "postgresql://nobody@127.0.0.1:1/x", "broker_url": "memory:///nowhere/socket"}
TOLD: dict[str, Any] = {
    "concurrency": 3,
    "threads": 4,
    "processes": 5,
    "prefetch": 6,
    "renewal": timedelta(seconds=7),
    "drain": timedelta(seconds=8),
    "stop_grace": timedelta(seconds=9),
    "leaked_threads": 11,
    "heartbeat": timedelta(seconds=12),
    "reconcilers": timedelta(seconds=13),
    "clock_skew": timedelta(seconds=14),
    "alive_file": Path("/tmp/alive"),
}
NAMES = {"prefetch": "deliveries", "reconcilers": "reconcile"}


async def options_of(monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]) -> WorkerOptions:
    """The options that a worker would be made with."""
    seen: list[WorkerOptions] = []

    def made(_duty: Duty, options: WorkerOptions, *_services: object) -> None:
        seen.append(options)

    monkeypatch.setattr(wiring, "Worker", made)
    settings = load_settings({**URLS, **{f"worker.{key}": value for key, value in told.items()}})
    publisher = broker_at(URLS["broker_url"]).publisher()
    wiring.worker_of(App("shop"), settings, publisher)
    await publisher.close()
    (options,) = seen
    return options


async def test_worker__is_told_every_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    options = await options_of(monkeypatch, TOLD)

    assert {key: getattr(options, NAMES.get(key, key)) for key in TOLD} == TOLD
    # Those are no options of it, or are made from what the host has, too.
    assert TOLD.keys() | {"coordinator", "name", "capabilities"} == WorkerSettings.model_fields.keys()


async def test_worker__has_by_default_what_its_options_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    options = await options_of(monkeypatch, {})

    given = {key: getattr(options, key) for key in ("database_url", "broker_url", "capabilities")}
    assert options == WorkerOptions(**given)
