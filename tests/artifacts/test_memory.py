"""Memory stays flat, however large an artifact is: measured in a process of its own, as the most that it ever held."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.s3 import KEY_ID, SECRET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.s3 import S3Server

MIB = 1024 * 1024
# Puts and fetches so many MiB; prints what was held before and at most, in MiB.
PROGRAM = """
import json, re, sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4
from brokerjobs.artifacts import handover
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.sources import Reading, opened
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.artifacts.transfers import Stop

def held():
    # Not ru_maxrss, which a process has from whoever started it.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def content():
    for number in range(count):
        yield number.to_bytes(8, "big") * 131072

url, options, count, to = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
store = ArtifactStore(StoreOptions(url=url, options=options))
store.prepare()
store.put("warm", iter([b"1"]))
before = held()
with opened(content(), Reading("an artifact", 2**40, Stop(), None)) as pieces:
    store.put("object", pieces)
put = held()
staged = SimpleNamespace(id=uuid4(), size=pieces.size, sha256=pieces.sha256, removing=None, store=store.public,
                         path="object")
handover.fetch(store, staged, to)
print(json.dumps({"before": before, "put": put, "fetched": held(), "size": to.stat().st_size}))
"""


def measured(url: str, options: dict[str, str], mebibytes: int, to: Path) -> dict[str, float]:
    """What the process held."""
    command = [sys.executable, "-c", PROGRAM, url, json.dumps(options), str(mebibytes), str(to)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert found["size"] == mebibytes * MIB
    to.unlink()
    return found


def test_folder__holds_a_few_pieces(tmp_path: Path) -> None:
    found = measured(str(tmp_path / "store"), {}, 512, tmp_path / "copy")
    assert found["fetched"] - found["before"] < 16, found


def test_bucket__holds_a_few_parts(server: S3Server, prefix: str, tmp_path: Path) -> None:
    options = {"endpoint": server.endpoint, "access_key_id": KEY_ID, "secret_access_key": SECRET, "region": "x"}
    found = measured(f"s3://artifacts/{prefix}", options, 160, tmp_path / "copy")
    assert found["fetched"] - found["before"] < 80, found
