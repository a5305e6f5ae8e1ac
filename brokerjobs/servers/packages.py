"""Installs RabbitMQ with the system's package manager without starting its service."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

_PACKAGE = "rabbitmq-server"
_INSTALL_SECONDS = 600.0
# Debian's invoke-rc.d asks this program before it starts a service; 101 means "forbidden by policy" (its README).
_POLICY = Path("/usr/sbin/policy-rc.d")
_FORBID = "#!/bin/sh\nexit 101\n"


def can_install() -> bool:
    """Whether this process may install packages here: it is root's and there is apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_rabbitmq(announce: Callable[[str], None]) -> None:
    """Install RabbitMQ's package, saying so first; raises ConfigurationError if apt-get fails."""
    announce(
        f"RabbitMQ is not installed: installing the packages {_PACKAGE} and erlang with apt-get. "
        "Their services are not started; the server used here is a private one."
    )
    with _services_stay_stopped():
        _apt_get(["update"])
        _apt_get(["install", "--yes", "--no-install-recommends", _PACKAGE])
    if Path("/run/systemd/system").is_dir():
        announce(f"{_PACKAGE} would start with the machine from now on; `systemctl disable {_PACKAGE}` prevents that.")


@contextlib.contextmanager
def _services_stay_stopped() -> Generator[None]:
    """Forbid package scripts to start services, unless a policy of the machine's own exists."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text(_FORBID)
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()


def _apt_get(arguments: Sequence[str]) -> None:
    done = subprocess.run(
        ["apt-get", "--quiet", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ConfigurationError(
            f"`apt-get {' '.join(arguments)}` ended with exit code {done.returncode}; install {_PACKAGE} by hand:",
            problems=tuple(done.stderr.splitlines()[-10:]),
        )
