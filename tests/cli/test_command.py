"""What runs commands in the tests' own process leaves nothing behind there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tests.cli.command import Command

if TYPE_CHECKING:
    from pathlib import Path


def test_command__that_runs_in_this_process_leaves_its_log_as_it_was(tmp_path: Path) -> None:
    """Else a later test that fails shows errors of a handler whose stderr is closed."""
    root = logging.getLogger()
    before = list(root.handlers), root.level, logging.getLogger("asyncio").level

    done = Command(tmp_path, {})("worker", "nowhere:app", "--log-level", "debug")

    assert done.code != 0
    assert (list(root.handlers), root.level, logging.getLogger("asyncio").level) == before
