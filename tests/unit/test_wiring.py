"""What a worker is told is what the settings say, or what they say by default."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import App, wiring
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.broker.brokers import broker_at
from brokerjobs.client.options import client_options
from brokerjobs.coordinator.sweeper import Sweeping
from brokerjobs.errors import ConfigurationError
from brokerjobs.ledger.sweeping import Limits
from brokerjobs.settings import ArtifactSettings, WorkerSettings
from brokerjobs.settings_loading import load_settings
from brokerjobs.worker.options import WorkerOptions

if TYPE_CHECKING:
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
    "probe_port": 8080,
    "probe_host": "0.0.0.0",
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


ARTIFACTS: dict[str, Any] = {
    "url": "s3://bucket/prefix",
    "options": {"region": "eu", "access_key_id": "anna", "secret_access_key": "s3cret-key"},
    "keep": timedelta(days=2),
    "grace": timedelta(minutes=3),
    "keep_rejected": timedelta(minutes=4),
    "incomplete": timedelta(minutes=5),
    "sweep": timedelta(minutes=6),
    "remove_orphans_after": timedelta(days=7),
    "max_size": 8,
}
STORE = StoreOptions(url=ARTIFACTS["url"], options=ARTIFACTS["options"], max_size=8, keep=timedelta(days=2))


def told_of_artifacts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    assert ARTIFACTS.keys() == ArtifactSettings.model_fields.keys()
    return {**URLS, **{f"artifacts.{key}": value for key, value in ARTIFACTS.items()}}


async def test_worker__is_told_of_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key, value in told_of_artifacts(monkeypatch, tmp_path).items():
        text = str(value.total_seconds()) if isinstance(value, timedelta) else json.dumps(value).strip('"')
        monkeypatch.setenv("BROKERJOBS_" + key.upper().replace(".", "__"), text)

    assert (await options_of(monkeypatch, {})).artifacts == STORE
    assert client_options("tests", None, None).artifacts == STORE


def test_coordinator__is_told_how_to_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = load_settings(told_of_artifacts(monkeypatch, tmp_path))

    sweeping = wiring.coordinator_options(settings).sweeping

    assert sweeping is not None
    assert sweeping.store.public == "s3://bucket/prefix"
    assert sweeping.limits == Limits(
        grace=timedelta(minutes=3), rejected=timedelta(minutes=4), incomplete=timedelta(minutes=5)
    )
    assert (sweeping.every, sweeping.remove_orphans_after) == (timedelta(minutes=6), timedelta(days=7))
    assert "s3cret" not in f"{wiring.coordinator_options(settings)!r}"


def test_coordinator__sweeps_by_default_as_its_options_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    sweeping = wiring.coordinator_options(load_settings(URLS)).sweeping

    assert sweeping is not None
    assert sweeping == Sweeping(store=sweeping.store)
    assert sweeping.store.public == (tmp_path / "brokerjobs" / "artifacts").as_uri()


def test_coordinator__of_a_user_without_a_home_sweeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_home() -> Path:
        message = "Could not determine home directory."
        raise RuntimeError(message)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)

    assert wiring.coordinator_options(load_settings(URLS)).sweeping is None


@pytest.mark.parametrize(
    ("url", "problem"), [("ftp://bucket", "there is no store for ftp://"), ("s3:///x", "needs the name of a bucket")]
)
def test_coordinator__with_a_store_that_it_cannot_speak_to_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match=problem):
        wiring.coordinator_options(load_settings({**URLS, "artifacts.url": url}))


def test_coordinator__without_the_library_of_its_store_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "brokerjobs.artifacts.remote", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'brokerjobs\[artifacts\]'"):
        wiring.coordinator_options(load_settings({**URLS, "artifacts.url": "s3://bucket"}))
