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


def test_transactions_of_others__need_none_of_their_drivers() -> None:
    """What `within=` takes is recognised without importing what the user may not have."""
    theirs = {"sqlalchemy", "asyncpg", "django", "psycopg2", "pg8000"}
    program = (
        "import sys, brokerjobs.client, brokerjobs.worker.context\n"
        "from brokerjobs.ledger import guest\n"
        "for door in (guest.guest, guest.sync_guest):\n"
        "    try: door(object())\n"
        "    except brokerjobs.ConfigurationError: pass\n"
        f"print(*({theirs!r} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
