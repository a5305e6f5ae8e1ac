"""Which images stand for PostgreSQL and RabbitMQ in tests: those that docker-compose.yml pins, if they can be had."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
COMPOSE_FILE: Final = ROOT / "docker-compose.yml"
# What is taken of an image that is pinned to a patch release if only a moving tag is on this machine.
_MOVING: Final = {"POSTGRES_IMAGE": "postgres:17", "RABBITMQ_IMAGE": "rabbitmq:4-management"}
_ASK_SECONDS: Final = 60.0

INSTALL_DOCKER: Final = (
    "Docker does not answer here: {}\n"
    "Install it (Debian: `sudo apt-get install docker.io docker-compose`), start its service, and let this user\n"
    "use it (`sudo usermod -aG docker $USER`, then log in anew).  The same tests run without it: `make pytest`."
)


def require_docker() -> None:
    """Ends pytest with what to install if no Docker answers."""
    problem = "there is no program `docker`"
    if shutil.which("docker") is not None:
        done = _docker("info", "--format", "{{.ServerVersion}}")
        if done.returncode == 0 and done.stdout.strip():
            return
        problem = (done.stderr.strip().splitlines() or ["`docker info` said nothing"])[-1]
    raise pytest.UsageError(INSTALL_DOCKER.format(problem))


def pinned(variable: str) -> str:
    """The image that docker-compose.yml takes if the variable is not set."""
    found = re.search(rf"\$\{{{variable}:-([^}}]+)\}}", COMPOSE_FILE.read_text())
    assert found, f"docker-compose.yml does not know {variable}"
    return found[1]


def image(variable: str) -> str:
    """The pinned image; if that is not on this machine but the same series under a moving tag is, that one."""
    wanted = pinned(variable)
    return next((name for name in (wanted, _MOVING.get(variable, wanted)) if is_here(name)), wanted)


def is_here(name: str) -> bool:
    """Whether an image is on this machine."""
    return _docker("image", "inspect", "--format", "{{.Id}}", name).returncode == 0


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_ASK_SECONDS,
        check=False,
    )
