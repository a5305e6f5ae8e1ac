from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from brokerjobs.alive import AliveFile
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def test_begin__removes_what_an_earlier_process_left(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    path.touch()

    AliveFile(path).begin()

    assert not path.exists()


def test_begin__refuses_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worker.alive_file is .*/absent/alive, .*: No such file"):
        AliveFile(tmp_path / "absent" / "alive").begin()


def test_show__makes_the_file_and_makes_it_young_again(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    alive = AliveFile(path)
    alive.begin()
    alive.show()
    os.utime(path, (0, 0))

    alive.show()

    assert path.stat().st_mtime > 0


def test_show__of_what_cannot_be_written_any_more_ends_nothing(tmp_path: Path) -> None:
    AliveFile(tmp_path / "absent" / "alive").show()

    assert list(tmp_path.iterdir()) == []


def test_alive_file__that_nobody_wants_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alive = AliveFile(None)
    alive.begin()
    alive.show()

    assert list(tmp_path.iterdir()) == []
