"""Messages are taken out of what a connection receives before aiormq sees them; all other frames go on to it.

aiormq reads its stream nine times, passes two queues and starts a task for each message: two fifths of the processor
time of a worker that does nothing (measured).  Here frames are taken apart as many at a time as have arrived, and a
doorbell that looks as they all do is found whole, by one pattern.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import pamqp.frame
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import InvalidFrameError
from pamqp import constants
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiormq import Channel

    from brokerjobs.broker.doorbells import Doorbells
    from brokerjobs.broker.protocol import Delivery

_CHUNK_BYTES: Final = 256 * 1024
_HEAD: Final = constants.FRAME_HEADER_SIZE  # type, channel (2 bytes), size of the payload (4)
_KINDS: Final = {constants.FRAME_METHOD, constants.FRAME_HEADER, constants.FRAME_BODY, constants.FRAME_HEARTBEAT}
_DELIVER: Final = Basic.Deliver.index.to_bytes(4)
_HEARTBEAT: Final = Heartbeat().marshal()
_SIGN_OF_LIFE_SECONDS: Final = 1.0


class Messages:
    """Puts the messages of one channel together; doorbells that look as they all do go another, shorter way."""

    def __init__(
        self,
        channel: Channel,
        doorbells: Doorbells,
        on_doorbell: Callable[[Delivery], None],
        on_other: Callable[[DeliveredMessage], None],
    ) -> None:
        """Both functions must not raise."""
        self._channel = channel
        self._doorbells = doorbells
        self._on_doorbell = on_doorbell
        self._on_other = on_other
        self._deliver: Basic.Deliver | None = None
        self._header: ContentHeader | None = None
        self._body = bytearray()

    def take_doorbell(self, data: bytes, at: int) -> int:
        """Take a doorbell that is all there at `at`; return where it ends, 0 if there is none."""
        if self._deliver is not None:
            return 0
        found = self._doorbells.find(data, at)
        if found is None:
            return 0
        self._on_doorbell(self._doorbells.read(found))
        return found.end()

    def take_frame(self, data: bytes) -> bool:
        """Take a frame of a message; False if it is none.  Raises `InvalidFrameError` as aiormq does."""
        if data[0] == constants.FRAME_METHOD and data[_HEAD : _HEAD + 4] != _DELIVER:
            return False
        try:
            frame = pamqp.frame.unmarshal(data)[2]
        except PAMQPException as error:
            raise InvalidFrameError(str(error)) from error
        match frame:
            case Basic.Deliver() if self._deliver is None:
                self._deliver = frame
            case ContentHeader() if self._deliver is not None and self._header is None:
                self._header = frame
            case ContentBody() if self._header is not None:
                self._body += frame.value
            case _:
                raise InvalidFrameError(f"a frame of a message out of its turn: {frame!r}")
        if self._deliver is not None and self._header is not None and len(self._body) >= self._header.body_size:
            message = DeliveredMessage(self._deliver, self._header, bytes(self._body), self._channel)
            self._deliver, self._header, self._body = None, None, bytearray()
            self._on_other(message)
        return True


class Intake:
    """Stands between the reader of a socket and aiormq, which takes it for that reader."""

    def __init__(self, reader: asyncio.StreamReader, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._monotonic = monotonic
        self._received = b""
        """Begins with a frame, and holds no whole one."""
        self._left = bytearray()
        """What is left to aiormq."""
        self._messages: dict[bytes, Messages] = {}
        self._showed_life = monotonic()

    def begin(self, channel: int, messages: Messages) -> None:
        """Take the messages of a channel from now on."""
        self._messages[channel.to_bytes(2)] = messages

    def end(self, channel: int, messages: Messages) -> None:
        """Leave the channel to aiormq, unless its number serves another one by now."""
        if self._messages.get(channel.to_bytes(2)) is messages:
            del self._messages[channel.to_bytes(2)]

    def at_eof(self) -> bool:
        """Whether nothing is left to aiormq and nothing will be."""
        return not self._left and not self._received and self._reader.at_eof()

    async def readexactly(self, count: int) -> bytes:
        """As of `asyncio.StreamReader`; takes messages on the way."""
        while len(self._left) < count:
            chunk = await self._reader.read(_CHUNK_BYTES)
            if not chunk:
                raise asyncio.IncompleteReadError(bytes(self._left), count)
            self._sort(self._received + chunk)
        taken = bytes(self._left[:count])
        del self._left[:count]
        return taken

    def _sort(self, data: bytes) -> None:
        """Take the messages out of `data` and leave the rest, up to the last whole frame."""
        at = 0
        while at + _HEAD < len(data):
            messages = self._messages.get(data[at + 1 : at + 3])
            if messages is not None and (end := messages.take_doorbell(data, at)):
                at = end
                continue
            # What begins otherwise is no frame: a server of another version answers so, and aiormq says that.
            end = at + _HEAD + int.from_bytes(data[at + 3 : at + _HEAD]) + 1 if data[at] in _KINDS else len(data)
            if end > len(data):
                break
            if messages is None or not messages.take_frame(data[at:end]):
                self._left += data[at:end]
            at = end
        self._received = data[at:]
        if self._messages:
            self._show_life()

    def _show_life(self) -> None:
        """Leave a heartbeat to aiormq, which gives up a connection that brings it no frames."""
        now = self._monotonic()
        if now > self._showed_life + _SIGN_OF_LIFE_SECONDS:
            self._showed_life = now
            self._left += _HEARTBEAT
