"""What a URL of the broker in memory says: `memory:///folder/socket`, or `memory://name` within a process."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from brokerjobs.broker.memory.links import LocalLink
from brokerjobs.broker.memory.socket_link import SocketLink
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta

    from brokerjobs.broker.memory.links import Link
    from brokerjobs.broker.memory.store import MemoryBroker

FORM = "memory:///folder/socket"

_of_this_process: dict[str, MemoryBroker] = {}


def url_of(socket: Path) -> str:
    """Return the URL of a broker that is served at `socket`."""
    return f"memory://{quote(str(socket.absolute()))}"


@contextmanager
def named(broker: MemoryBroker) -> Generator[str]:
    """Give `broker` a URL that only this process understands, inside the block."""
    name = secrets.token_hex(8)
    _of_this_process[name] = broker
    try:
        yield f"memory://{name}"
    finally:
        del _of_this_process[name]


async def open_link(url: str, heartbeat: timedelta) -> Link:
    """Open a link; raises `BrokerUnavailable`, `PermissionDenied` or `ConfigurationError` (the URL)."""
    parts = urlsplit(url)
    if parts.netloc and not parts.path.strip("/"):
        if (broker := _of_this_process.get(parts.netloc)) is None:
            raise ConfigurationError(f"this process has no in-memory broker {parts.netloc!r}; one of another is {FORM}")
        await asyncio.sleep(0)  # a turn of the loop, in which a time limit may end
        return LocalLink(broker)
    if parts.netloc or len(parts.path) < len("/a"):
        raise ConfigurationError(f"the broker URL {url!r} is not of the form {FORM}")
    return await SocketLink.open(Path(unquote(parts.path)), url, heartbeat)
