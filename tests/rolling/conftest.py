"""The previous release, taken from the history, and this one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import Command
from tests.rolling.releases import Look, Release, extract_previous

if TYPE_CHECKING:
    from tests.databases import Database


@pytest.fixture(scope="session")
def previous_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the previous release; skips where the history does not have it."""
    folder = tmp_path_factory.mktemp("previous")
    if why := extract_previous(folder):
        pytest.skip(f"{why}: a shallow clone, or no clone")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the application."""
    shutil.copy(Path(__file__).with_name("till.py"), tmp_path)
    return tmp_path


@pytest.fixture
def previous(previous_tree: Path, folder: Path, blank_database: Database, namespace: str, broker_url: str) -> Release:
    """The release before this one."""
    env = {"TILL_NAMESPACE": namespace, "BROKERJOBS_BROKER_URL": broker_url, "PYTHONPATH": str(previous_tree)}
    return Release(Command(folder, env), blank_database)


@pytest.fixture
def this(folder: Path, blank_database: Database, namespace: str, broker_url: str) -> Release:
    """This release."""
    env = {"TILL_NAMESPACE": namespace, "BROKERJOBS_BROKER_URL": broker_url}
    return Release(Command(folder, env), blank_database)


@pytest.fixture
def look(blank_database: Database, namespace: str, broker_url: str) -> Look:
    """What has become of the jobs."""
    return Look(blank_database, broker_url, namespace)
