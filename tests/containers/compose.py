"""docker-compose.yml as a test reads it and runs it: under a project name and on ports of its own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from brokerjobs.servers.processes import LOOPBACK, free_port
from tests.containers import images

if TYPE_CHECKING:
    from collections.abc import Sequence

_PORTS: Final = ("POSTGRES_PORT", "RABBITMQ_PORT", "RABBITMQ_MANAGEMENT_PORT")
_COMMAND_SECONDS: Final = 600.0


def services(profile: str | None = None) -> dict[str, dict[str, Any]]:
    """The services of the file, anchors merged and variables as they are written; those of a profile, or of none."""
    wanted = [] if profile is None else [profile]
    every: dict[str, dict[str, Any]] = yaml.safe_load(images.COMPOSE_FILE.read_text())["services"]
    return {name: one for name, one in every.items() if one.get("profiles", []) == wanted}


def goes_on(service: dict[str, Any]) -> bool:
    """Whether a service is meant to run for good, in contrast to one that does its work and ends."""
    return bool(service["restart"] != "no")


def _command() -> Sequence[str]:
    """The program, old or new; ends the test with what to install if there is neither."""
    if shutil.which("docker-compose") is not None:
        return ["docker-compose"]
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if done.returncode == 0:
        return ["docker", "compose"]
    pytest.fail("there is no docker-compose (Debian: `sudo apt-get install docker-compose`)")


@dataclass(frozen=True, slots=True)
class Stack:
    """One run of the file."""

    project: str = field(default_factory=lambda: f"bj{secrets.token_hex(4)}")
    password: str = field(default_factory=lambda: secrets.token_hex(12), repr=False)
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in _PORTS})

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Runs a command and answers its output; what it and the services said is in the error."""
        command = [*_command(), "--project-name", self.project, *arguments]
        done = subprocess.run(
            command,
            cwd=images.ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        if check and done.returncode != 0:
            pytest.fail(
                f"{' '.join(command)}: exit code {done.returncode}\n{said}\n{self.compose('logs', check=False)}"
            )
        return done.stdout

    def containers(self) -> dict[str, dict[str, Any]]:
        """What Docker knows of each service's container."""
        ids = self.compose("ps", "--quiet", "--all").split()
        known = json.loads(subprocess.run(["docker", "inspect", *ids], capture_output=True, check=True).stdout)
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in known}

    def states(self) -> dict[str, str]:
        """How each service's container is: `healthy`, `ended 0`, …"""
        return {name: _state(one["State"]) for name, one in self.containers().items()}

    def database_url(self, login: str) -> str:
        """The ledger, as seen from this machine."""
        return f"postgresql://{login}:{self.password}@{LOOPBACK}:{self.ports['POSTGRES_PORT']}/jobs"

    def broker_url(self, user: str) -> str:
        """The broker, as seen from this machine."""
        return f"amqp://{user}:{self.password}@{LOOPBACK}:{self.ports['RABBITMQ_PORT']}/"

    def _environment(self) -> dict[str, str]:
        processes = ("COORDINATOR_1", "COORDINATOR_2", "WORKER", "PRODUCER")
        passwords = ("POSTGRES", "RABBITMQ", "OWNER", *processes, "READER", "OPERATOR")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("BROKERJOBS_")},
            **{f"{name}_PASSWORD": self.password for name in passwords},
            **{name: str(port) for name, port in self.ports.items()},
            "POSTGRES_IMAGE": images.image("POSTGRES_IMAGE"),
            "RABBITMQ_IMAGE": images.image("RABBITMQ_IMAGE"),
            "BROKERJOBS_IMAGE": images.APPLICATION,
        }


def _state(state: dict[str, Any]) -> str:
    if state["Status"] == "exited":
        return f"ended {state['ExitCode']}"
    health: str = state.get("Health", {}).get("Status", state["Status"])
    return health
