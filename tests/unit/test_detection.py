"""What a worker finds out about its host, and that the host's name is no part of it."""

from __future__ import annotations

import os
import platform
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from brokerjobs import needs
from brokerjobs.rules.placement import unmet
from brokerjobs.worker import detection
from brokerjobs.worker.detection import detected

if TYPE_CHECKING:
    from pathlib import Path

GIBIBYTE = 1 << 30


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with eight processors and 64 GiB."""

    def processors(_process: int) -> set[int]:
        return set(range(8))

    monkeypatch.setattr(os, "sched_getaffinity", processors, raising=False)
    monkeypatch.setattr(detection, "_memory", lambda: iter([64 * GIBIBYTE]))


def files(root: Path, **given: str) -> Path:
    for name, text in given.items():
        file = root.joinpath(*name.split("__"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def said(root: Path, name: str) -> str:
    (text,) = detected(root).texts[name]
    return text


def test_detected__is_what_the_host_has(tmp_path: Path) -> None:
    found = detected(tmp_path)

    assert [name for name, _ in found.items] == ["arch", "cpu", "memory", "os", "python"]
    assert (said(tmp_path, "cpu"), said(tmp_path, "memory")) == ("8", "64GiB")
    assert said(tmp_path, "python") == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert said(tmp_path, "os") == sys.platform


def test_detected__of_this_host_is_something(tmp_path: Path) -> None:
    found = detected()

    assert found.quantity("cpu")
    assert found.quantity("memory")


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        # A container: what it has is at the mount.
        ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu.max": "150000 100000"}, "1.5", "64GiB"),
        ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__cpu.max": "max 100000"}, "8", "64GiB"),
        ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__memory.max": "max"}, "8", "64GiB"),
        ({"proc__self__cgroup": "0::/", "sys__fs__cgroup__memory.max": f"{2 * GIBIBYTE + 5}\n"}, "8", "2GiB"),
        # A path of the host's, which is not there.
        ({"proc__self__cgroup": "0::/../a/b", "sys__fs__cgroup__memory.max": f"{GIBIBYTE}"}, "8", "1GiB"),
        # A unit in a slice: the smallest of all limits counts.
        (
            {
                "proc__self__cgroup": "0::/jobs.slice/one.service\n",
                "sys__fs__cgroup__jobs.slice__memory.max": f"{3 * GIBIBYTE}",
                "sys__fs__cgroup__jobs.slice__one.service__memory.max": f"{4 * GIBIBYTE}",
                "sys__fs__cgroup__jobs.slice__one.service__cpu.max": "400000 100000",
            },
            "4",
            "3GiB",
        ),
        # The first version of control groups: a mount for each.
        (
            {
                "proc__self__cgroup": "3:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n1:name=systemd:/x\n",
                "sys__fs__cgroup__memory__memory.limit_in_bytes": f"{6 * GIBIBYTE}",
                "sys__fs__cgroup__cpu__cpu.cfs_quota_us": "33333",
                "sys__fs__cgroup__cpu__cpu.cfs_period_us": "100000",
            },
            "0.333",
            "6GiB",
        ),
        ({"proc__self__cgroup": "2:cpu:/", "sys__fs__cgroup__cpu__cpu.cfs_quota_us": "-1"}, "8", "64GiB"),
        ({"proc__self__cgroup": "nonsense", "sys__fs__cgroup__cpu.max": "many"}, "8", "64GiB"),
    ],
)
def test_detected__keeps_to_the_limits_of_its_control_group(
    tmp_path: Path, given: dict[str, str], cpu: str, memory: str
) -> None:
    files(tmp_path, **given)

    assert (said(tmp_path, "cpu"), said(tmp_path, "memory")) == (cpu, memory)


def test_detected__reads_nothing_from_the_hosts_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = detected(tmp_path)
    named, real = "gpu-a100", os.uname()

    def uname() -> os.uname_result:
        return os.uname_result((real.sysname, named, *real[2:]))

    for module, name in ((socket, "gethostname"), (socket, "getfqdn"), (platform, "node")):
        monkeypatch.setattr(module, name, lambda: named)
    monkeypatch.setattr(os, "uname", uname)
    monkeypatch.setattr(platform, "_uname_cache", None)
    monkeypatch.setenv("HOSTNAME", named)

    found = detected(tmp_path)

    assert platform.uname().node == named
    assert found == before
    assert [one.text for one in unmet([needs.equal("gpu", "a100"), needs.has("gpu", "a100")], found)] == [
        "lacks gpu",
        "lacks gpu a100",
    ]
