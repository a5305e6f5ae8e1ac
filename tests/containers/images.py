"""Which images stand for PostgreSQL and RabbitMQ in tests: those that docker-compose.yml pins, if they can be had."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
COMPOSE_FILE: Final = ROOT / "docker-compose.yml"
# What is taken of an image that is pinned to a patch release if only a moving tag is on this machine.
_MOVING: Final = {"POSTGRES_IMAGE": "postgres:17", "RABBITMQ_IMAGE": "rabbitmq:4-management"}
_ASK_SECONDS: Final = 60.0
_BUILD_SECONDS: Final = 600.0

APPLICATION: Final = "brokerjobs-test/application"
_PYTHON: Final = "brokerjobs-test/python"
_STAND_IN: Final = """\
ARG BASE
FROM ${BASE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv
COPY trusted.crt /etc/ssl/certs/trusted.crt
ENV PIP_CERT=/etc/ssl/certs/trusted.crt
"""

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


def build_application() -> None:
    """Builds the image of config/docker/Dockerfile under the name `APPLICATION`."""
    base = f"PYTHON_IMAGE={_python_image()}"
    _build(["--file", str(ROOT / "config/docker/Dockerfile"), "--build-arg", base, str(ROOT)], APPLICATION)


def _python_image() -> str:
    """The pinned image, pulled if it can be; else Debian's Python in the image of PostgreSQL, which is Debian, too."""
    wanted = pinned("PYTHON_IMAGE")
    if is_here(wanted) or _docker("pull", "--quiet", wanted, within_seconds=_BUILD_SECONDS).returncode == 0:
        return wanted
    with tempfile.TemporaryDirectory() as folder:
        # Package registries may be behind an authority that this machine trusts and a new image does not.
        trusted = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
        (Path(folder) / "trusted.crt").write_bytes(Path(trusted).read_bytes() if trusted else b"")
        (Path(folder) / "Dockerfile").write_text(_STAND_IN)
        _build(["--build-arg", f"BASE={image('POSTGRES_IMAGE')}", folder], _PYTHON)
    return _PYTHON


def _build(arguments: Sequence[str], name: str) -> None:
    done = _docker("build", "--quiet", "--network", "host", "--tag", name, *arguments, within_seconds=_BUILD_SECONDS)
    if done.returncode != 0:
        pytest.fail(f"the image {name} could not be built:\n{done.stdout}{done.stderr}")


def _docker(*arguments: str, within_seconds: float = _ASK_SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_seconds,
        check=False,
    )
