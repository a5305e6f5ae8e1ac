"""Processes that a handler forks: they may upload, or are told why not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.s3 import KEY_ID, SECRET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.s3 import S3Server

# Stages an object, then does so in a fork while all places of transfers are taken, which goes on without the fork.
PROGRAM = """
import json, os, sys, threading
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.artifacts.transfers import AT_ONCE, Stop, slots

store = ArtifactStore(StoreOptions(url=sys.argv[1], options=json.loads(sys.argv[2])))
store.prepare()
store.put("before", iter([b"1"]))
taken, over = threading.Barrier(AT_ONCE + 1), threading.Event()

def takes():
    with slots.taken(Stop()):
        taken.wait()
        over.wait()

for _ in range(AT_ONCE):
    threading.Thread(target=takes).start()
taken.wait()
try:
    if (child := os.fork()) == 0:
        try:
            with slots.taken(Stop()):
                store.put("in the fork".replace(" ", "-"), iter([b"2"]))
            said = "uploaded"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(1, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
finally:
    over.set()
"""


def said_by_a_fork(url: str, options: str) -> str:
    command = [sys.executable, "-c", PROGRAM, url, options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def test_fork__uploads_to_a_folder(tmp_path: Path) -> None:
    assert said_by_a_fork(str(tmp_path / "store"), "{}") == "uploaded"
    assert sorted(one.name for one in (tmp_path / "store").iterdir()) == ["before", "in-the-fork"]


def test_fork__is_told_that_it_cannot_reach_a_bucket(server: S3Server, prefix: str) -> None:
    options = (
        f'{{"endpoint": "{server.endpoint}", "access_key_id": "{KEY_ID}", "secret_access_key": "{SECRET}", '
        '"region": "x"}'
    )
    said = said_by_a_fork(f"s3://artifacts/{prefix}", options)
    assert said.startswith("ConfigurationError"), said
    assert "forked" in said
