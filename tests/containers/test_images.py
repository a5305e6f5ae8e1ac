from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.servers import containers
from brokerjobs.servers.rabbitmq import speaks_amqp
from tests.containers import images, pgbouncer

if TYPE_CHECKING:
    from pathlib import Path


def test_docker__that_is_missing_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.UsageError, match=r"there is no program `docker`\n.*apt-get install docker.io"):
        images.require_docker()


def test_docker__that_does_not_run_is_said_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 'permission denied: /var/run/docker.sock' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    with pytest.raises(pytest.UsageError, match=r"permission denied: .*sock\n(?s:.*)usermod -aG docker"):
        images.require_docker()


def test_pgbouncer__that_is_missing_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgbouncer, "program", lambda: None)

    with pytest.raises(pytest.UsageError, match="apt-get install pgbouncer"):
        pgbouncer.require_program()


def test_rabbitmq_of_the_demo__runs_in_a_container_and_is_removed(pytestconfig: pytest.Config) -> None:
    """Where no RabbitMQ is installed: `brokerjobs demo` without testcontainers."""
    if pytestconfig.getoption("servers") != "containers":
        pytest.skip("needs an image of RabbitMQ: `make test-containers`")
    assert containers.can_run()

    server = containers.ContainerRabbitMQ.start()
    port = int(server.url.rpartition(":")[2].rstrip("/"))
    assert speaks_amqp(port)
    server.stop()
    server.stop()

    assert not speaks_amqp(port)
