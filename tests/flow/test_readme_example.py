"""The example of the README, run as it tells its reader to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Database

ROOT = Path(__file__).parents[2]
CHECKED = (ROOT / "docs" / "examples" / "quickstart.py").read_text()
COMMAND = [sys.executable, "-m", "brokerjobs.cli"]


def readme_example() -> str:
    """The README's only block of Python that makes an App."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    (example,) = [block for block in blocks if "App(" in block]
    return str(example)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a reader who has copied the example into shop.py."""
    (tmp_path / "shop.py").write_text(readme_example())
    return tmp_path


def environment(database_url: str, broker_url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BROKERJOBS_")}
    return inherited | {"BROKERJOBS_DATABASE_URL": database_url, "BROKERJOBS_BROKER_URL": broker_url}


@pytest.fixture
def booking(database: Database) -> Database:
    """The database with the example's table, into which the worker may insert."""
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("create table booking (order_number text, cents integer)")
        connection.execute("grant insert on booking to brokerjobs_worker")
    return database


@pytest.fixture
def worker(shop: Path, booking: Database, broker_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """`brokerjobs setup shop:app` done, `brokerjobs worker shop:app` running."""
    setup = [*COMMAND, "setup", "shop:app"]
    subprocess.run(setup, env=environment(booking.owner_url, broker_url), cwd=shop, capture_output=True, check=True)
    process = subprocess.Popen(
        [*COMMAND, "worker", "shop:app"],
        env=environment(booking.worker_url, broker_url),
        cwd=shop,
        stderr=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.communicate()


def test_readme_example__is_the_checked_one() -> None:
    assert CHECKED.endswith(readme_example())


@pytest.mark.timeout(120)
def test_readme_example__books_once(
    shop: Path, booking: Database, broker_url: str, worker: subprocess.Popen[bytes]
) -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "shop.py"],
            env=environment(booking.producer_url, broker_url),
            cwd=shop,
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)  # the same key again is the same job
    ]
    worker.send_signal(signal.SIGTERM)

    assert [(one.returncode, one.stdout) for one in outputs] == [(0, "booked 991\n")] * 2, outputs
    assert worker.wait(30) == 0
    with psycopg.connect(booking.owner_url) as connection:
        assert connection.execute("select * from booking").fetchall() == [("991", 1250)]
