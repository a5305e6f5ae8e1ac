"""`python -m brokerjobs.cli` is the command `brokerjobs`."""

from __future__ import annotations

from brokerjobs.cli.main import run

run()
