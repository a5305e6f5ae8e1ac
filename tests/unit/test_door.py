from __future__ import annotations

import subprocess
import sys

import brokerjobs


def test_door__names_are_sorted_and_there() -> None:
    assert brokerjobs.__all__ == sorted(brokerjobs.__all__)
    assert all(hasattr(brokerjobs, name) for name in brokerjobs.__all__)


def test_door__is_cheap_to_open() -> None:
    heavy = {
        "pydantic",
        "pydantic_settings",
        "psycopg",
        "aio_pika",
        "aiormq",
        "opentelemetry",
        "typer",
        "rich",
        "asyncio",
    }
    program = f"import sys, brokerjobs; print(*({heavy!r} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
