"""`python -m brokerjobs.servers.serving` (`make servers`): a private PostgreSQL and a broker to try things on.

Stdout gets two lines for a shell, which say where they are; they run, with empty folders of their own, until Ctrl-C or
SIGTERM, and all that they have is removed then.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import finder

if TYPE_CHECKING:
    from collections.abc import Generator


def serve() -> None:
    """Start the servers, say where they are, and wait to be told to end; raises ConfigurationError."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    with _folder() as folder:
        _say("starting PostgreSQL and a broker …")
        broker = finder.find_broker(folder, _say)
        try:
            database = finder.find_postgres(folder)
            try:
                sys.stdout.write(f"export BROKERJOBS_DATABASE_URL='{database.url}'\n")
                sys.stdout.write(f"export BROKERJOBS_BROKER_URL='{broker.url}'\n")
                sys.stdout.flush()
                _say("they run until Ctrl-C, and keep nothing then; say these two lines in each terminal")
                while True:
                    signal.pause()
            finally:
                database.stop()
        finally:
            broker.stop()


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-servers-"))
    folder.chmod(0o755)  # a server that does not run as root has to enter it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would leave servers behind
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    try:
        serve()
    except ConfigurationError as error:
        _say(f"error: {error}")
        sys.exit(3)
