"""What a server that a test may break has, whether it is a program of this machine or a container."""

from __future__ import annotations

from typing import Protocol


class BreakableServer(Protocol):
    """A server of the tests' own on a loopback port, which keeps port and data while it is down."""

    @property
    def url(self) -> str:
        """The URL of its administrator."""
        ...

    def stop(self) -> None:
        """End it in order; idempotent."""
        ...

    def kill(self) -> None:
        """End it as a crash would."""
        ...

    def resume(self) -> None:
        """Start it again after `stop` or `kill`."""
        ...


class PostgresNode(BreakableServer, Protocol):
    """A PostgreSQL server that a test may break."""


class RabbitMQNode(BreakableServer, Protocol):
    """A RabbitMQ node that a test may break."""

    def ctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl` against it and return its output; raises ConfigurationError if it fails."""
        ...

    def log_text(self) -> str:
        """What it has logged."""
        ...

    def stop_app(self) -> None:
        """Stop the broker inside it: connections are closed, the port is shut, the data stay."""
        ...

    def start_app(self) -> None:
        """Start that again and wait until it takes connections."""
        ...

    def freeze(self) -> None:
        """Let it stand still, with its connections open, until `thaw`."""
        ...

    def thaw(self) -> None:
        """Let it go on."""
        ...
