"""What a worker has without being told: its system, processors, memory and Python. Its host's name says nothing."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerjobs.rules import capabilities
from brokerjobs.rules.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.rules.capabilities import Capabilities

_MEBIBYTE: Final = 1 << 20


def detected(root: Path = Path("/")) -> Capabilities:
    """The capabilities os, arch, cpu, memory and python; limits of a container or a unit count, as `root` shows them.

    cpu is how many processors this process may use, a part of one with three decimals; memory is in whole MiB.
    """
    found = {
        "os": {"win32": "windows"}.get(sys.platform, sys.platform),
        "arch": platform.machine().lower(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "cpu": f"{min(_processors(), *_processor_limits(root)):.3f}".rstrip("0").rstrip("."),
    }
    if memory := min([*_memory(), *_memory_limits(root)], default=0) // _MEBIBYTE:
        found["memory"] = str(Quantity(memory * _MEBIBYTE, "B"))
    return capabilities.of({name: text for name, text in found.items() if text})


def _processors() -> int:
    with suppress(AttributeError, OSError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> Iterator[int]:
    with suppress(AttributeError, ValueError, OSError):  # no such system call, or no such name
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _processor_limits(root: Path) -> Iterator[float]:
    yield float(_processors())
    for folder in _groups(root):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):  # -1: no limit
            yield int(quota) / int(period)


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _groups(root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (limit := _read(folder / name)).isdigit():
                yield int(limit)


def _groups(root: Path) -> Iterator[Path]:
    """The control groups of this process, of both versions, and those that they are in."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        kinds = [f"sys/fs/cgroup/{one}" for one in controllers.split(",") if one in {"cpu", "memory"}]
        for mount in kinds if controllers else ["sys/fs/cgroup"]:
            parts = [part for part in path.split("/") if part not in {"", ".."}]
            # In a container the path may be that of its host, which is not there: the mount itself then has its limits.
            yield from (root.joinpath(mount, *parts[:count]) for count in range(len(parts), -1, -1))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
