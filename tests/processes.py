"""What tests ask about processes that are not their children."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that ended and waits for its parent to notice it has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state = stat.rpartition(")")[2].split()[0]
    return state != "Z"
