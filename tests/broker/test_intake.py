from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pamqp.frame
import pytest
from aiormq.exceptions import InvalidFrameError
from hypothesis import given
from hypothesis import strategies as st
from pamqp import constants
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from brokerjobs.broker import codec, confirms, frame_decoder, names
from brokerjobs.broker.connection import linked
from brokerjobs.broker.doorbells import Doorbells, consumer_tag
from brokerjobs.broker.intake import Intake, Messages
from brokerjobs.broker.own_context import ours
from brokerjobs.broker.protocol import Delivery, Probe, Unreadable
from tests.broker import raw
from tests.waiting import eventually

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

    from brokerjobs.broker.publisher import Publisher

SOURCE = codec.Source.of("payments.q.default", 3)
CHANNEL = 258
TICKET, JOB = UUID(int=5), UUID("018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HEARTBEAT = Heartbeat().marshal()


@pytest.fixture(autouse=True, scope="module")
def installed() -> None:
    frame_decoder.install()


@dataclass
class Taken:
    """What an intake takes, and by which way."""

    read: list[Delivery | Probe | Unreadable] = field(default_factory=list[Delivery | Probe | Unreadable])
    doorbells: int = 0

    def doorbell(self, delivery: Delivery) -> None:
        self.doorbells += 1
        self.read.append(timeless(delivery))

    def other(self, message: DeliveredMessage) -> None:
        self.read.append(read(message))


def read(message: DeliveredMessage) -> Delivery | Probe | Unreadable:
    return timeless(codec.read(message, SOURCE, received=0.0, received_at=datetime(2030, 1, 1, tzinfo=UTC)))


def timeless(one: Delivery | Probe | Unreadable) -> Delivery | Probe | Unreadable:
    if isinstance(one, Delivery):
        return one._replace(received=0.0, received_at=datetime(2030, 1, 1, tzinfo=UTC))
    return one


def intake(taken: Taken, *chunks: bytes, **options: Any) -> Intake:
    """An intake that reads these chunks and then the end, and takes the messages of `CHANNEL`."""

    class Chunks(asyncio.StreamReader):
        def at_eof(self) -> bool:
            return not left

        async def read(self, n: int = -1) -> bytes:  # noqa: ARG002  # as much as has come
            return left.pop(0) if left else b""

    left = list(chunks)
    made = Intake(Chunks(), **options)
    made.begin(CHANNEL, messages_for(taken))
    return made


def messages_for(taken: Taken) -> Messages:
    channel: Any = None  # nothing here looks at it
    return Messages(channel, Doorbells(SOURCE, CHANNEL), taken.doorbell, taken.other)


async def rest_of(made: Intake) -> bytes:
    """What is left to aiormq, read as it does."""
    rest = b""
    with ours():
        while not made.at_eof():
            try:
                rest += (head := await made.readexactly(7))
                rest += await made.readexactly(int.from_bytes(head[3:]) + 1)
            except asyncio.IncompleteReadError as error:
                return rest + error.partial
    return rest


def deliver(tag: int, *, channel: int = CHANNEL, redelivered: bool = False, key: str = SOURCE.route) -> bytes:
    return pamqp.frame.marshal(Basic.Deliver(consumer_tag(2), tag, redelivered, SOURCE.exchange, key), channel)


def doorbell(tag: int, *, redelivered: bool = False, traceparent: str | None = None) -> bytes:
    message = codec.doorbell(
        ticket=TICKET, job_id=JOB, namespace=SOURCE.namespace, route=SOURCE.route, traceparent=traceparent
    )
    return deliver(tag, redelivered=redelivered) + confirms.content_frames(message, CHANNEL)


def content(body: bytes, *, channel: int = CHANNEL, step: int = 4096, **properties: Any) -> bytes:
    frames: list[Any] = [ContentHeader(properties=Basic.Properties(**properties), body_size=len(body))]
    frames += [ContentBody(body[start : start + step]) for start in range(0, len(body), step)]
    return b"".join(pamqp.frame.marshal(frame, channel) for frame in frames)


def as_doorbell(tag: int, body: bytes | None = None, **changed: Any) -> bytes:
    """A message that differs from a doorbell in what is given."""
    properties: dict[str, Any] = {"content_type": "application/json", "delivery_mode": 2, "message_id": str(TICKET)}
    properties |= {"message_type": names.DOORBELL_TYPE} | changed
    return deliver(tag) + content(codec.encode_doorbell(JOB) if body is None else body, **properties)


ORDINARY = {
    "plain": doorbell(1),
    "traced": doorbell(1, traceparent=TRACEPARENT),
    "redelivered": doorbell(1, redelivered=True),
}


@pytest.mark.parametrize("data", ORDINARY.values(), ids=ORDINARY)
async def test_intake__takes_an_ordinary_doorbell_whole(data: bytes) -> None:
    taken = Taken()

    assert await rest_of(intake(taken, data)) == b""

    assert taken.doorbells == 1
    (delivery,) = taken.read
    assert isinstance(delivery, Delivery)
    assert (delivery.ticket, delivery.job_id, delivery.tag) == (TICKET, JOB, 1)
    assert delivery.redelivered is (data == ORDINARY["redelivered"])
    assert (delivery.namespace, delivery.route, delivery.generation) == ("payments", SOURCE.route, 3)


OTHERS = {
    "another property": as_doorbell(1, priority=3),
    "another header": as_doorbell(1, headers={"x-delivery-count": 2}),
    "transient": as_doorbell(1, delivery_mode=1),
    "another type": as_doorbell(1, message_type="brokerjobs.dooorbell"),
    "a ticket in capitals": as_doorbell(1, message_id=str(JOB).upper()),
    "a ticket without hyphens": as_doorbell(1, message_id=JOB.hex),
    "a job in capitals": as_doorbell(1, codec.encode_doorbell(JOB).replace(b"7c1e", b"7C1E")),
    "blanks in the body": as_doorbell(1, b'{"v": 1, "job": "%s"}' % str(JOB).encode()),
    "another version": as_doorbell(1, codec.encode_doorbell(JOB).replace(b'"v":1', b'"v":2')),
    "another routing key": deliver(1, key="payments.q.others") + doorbell(1)[len(deliver(1)) :],
    "an empty body": as_doorbell(1, b""),
    "a body in parts": deliver(1) + content(b"x" * 10_000, step=100),
    "no properties": deliver(1) + content(b"{}"),
    "damaged properties": deliver(1)
    + raw.frame(constants.FRAME_HEADER, CHANNEL, b"\x00\x3c\x00\x00" + (1).to_bytes(8) + b"\x80\x00\x02\xff\xff")
    + raw.frame(constants.FRAME_BODY, CHANNEL, b"x"),
    "a probe": deliver(1)
    + confirms.content_frames(codec.probe(ticket=TICKET, namespace="payments", route=SOURCE.route), CHANNEL),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
async def test_intake__puts_any_other_message_together(data: bytes) -> None:
    taken = Taken()

    assert await rest_of(intake(taken, data)) == b""

    assert taken.doorbells == 0
    assert len(taken.read) == 1


def test_doorbells__are_read_as_the_codec_reads_them() -> None:
    """The pattern takes nothing that `codec.read` would not, and reads the same; here, one byte changed at a time."""
    doorbells = Doorbells(SOURCE, CHANNEL)
    for data in ORDINARY.values():
        for place in range(len(data)):
            for changed in {data[place] ^ 1, data[place] ^ 0x20, 0, 0xFF, ord("a")}:
                found = doorbells.find(data[:place] + bytes([changed]) + data[place + 1 :], 0)
                if found is not None:
                    taken = Taken()
                    put_together(found.string, taken)
                    assert taken.read == [timeless(doorbells.read(found))]


def put_together(data: bytes, taken: Taken) -> None:
    """Take a message frame by frame, without the pattern."""
    messages = messages_for(taken)
    with ours():
        while data:
            end = 8 + int.from_bytes(data[3:7])
            assert messages.take_frame(data[:end])
            data = data[end:]


PASSED = {
    "a heartbeat": HEARTBEAT,
    "an answer": pamqp.frame.marshal(Basic.CancelOk(consumer_tag(2)), CHANNEL),
    "the end of the channel": pamqp.frame.marshal(Channel.Close(404, "gone", 0, 0), CHANNEL),
    "another channel": deliver(9, channel=1) + content(b"x", channel=1),
    "another connection's business": pamqp.frame.marshal(Basic.Ack(3), 7),
}


@given(st.data())
async def test_intake__takes_messages_and_leaves_the_rest_however_they_are_cut(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*ORDINARY.values(), *OTHERS.values(), *PASSED.values()]), max_size=12))
    stream = b"".join(kinds)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]
    expected = Taken()
    for one in kinds:
        if one not in PASSED.values():
            put_together(one, expected)
    taken = Taken()

    left = await rest_of(intake(taken, *chunks, monotonic=lambda: 0.0))

    assert left == b"".join(one for one in kinds if one in PASSED.values())
    assert taken.read == expected.read


async def test_intake__lets_no_doorbell_overtake_a_message_that_is_not_whole() -> None:
    taken = Taken()
    begun, rest = OTHERS["a body in parts"][:-200], OTHERS["a body in parts"][-200:]

    assert await rest_of(intake(taken, begun, rest + doorbell(2), monotonic=lambda: 0.0)) == b""

    assert [one.tag for one in taken.read] == [1, 2]
    assert taken.doorbells == 1


@pytest.mark.parametrize(
    "data",
    [
        deliver(1) + deliver(2),
        deliver(1) + doorbell(2),
        content(b"x"),
        deliver(1) + pamqp.frame.marshal(ContentBody(b"x"), CHANNEL),
        deliver(1)[:-1] + b"x",
    ],
    ids=["two beginnings", "a doorbell within a message", "no beginning", "no header", "no end"],
)
async def test_intake__refuses_what_breaks_the_protocol_as_aiormq_does(data: bytes) -> None:
    with ours(), pytest.raises(InvalidFrameError):
        await intake(Taken(), data).readexactly(1)


async def test_intake__leaves_what_is_no_frame_to_aiormq() -> None:
    assert await intake(Taken(), b"AMQP\x00\x01\x00\x00").readexactly(8) == b"AMQP\x00\x01\x00\x00"


async def test_intake__leaves_a_channel_alone_after_its_end() -> None:
    taken = Taken()
    made = intake(taken, doorbell(1))
    made.begin(CHANNEL, earlier := messages_for(taken))
    made.begin(CHANNEL, later := messages_for(taken))

    made.end(CHANNEL, earlier)  # its number serves another channel by now
    assert await rest_of(made) == b""

    made = intake(taken, doorbell(2))
    made.begin(CHANNEL, later)
    made.end(CHANNEL, later)
    assert await rest_of(made) == doorbell(2)
    assert [one.tag for one in taken.read] == [1]


async def test_intake__tells_of_an_end_within_a_frame() -> None:
    made = intake(Taken(), HEARTBEAT + deliver(1)[:9])

    assert await made.readexactly(8) == HEARTBEAT
    assert not made.at_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await made.readexactly(1)


async def test_intake__shows_aiormq_that_the_connection_lives() -> None:
    """aiormq gives up a connection that brings it no frame for long, and a broker that delivers sends no heartbeat."""
    now = 0.0
    made = intake(Taken(), doorbell(1), doorbell(2), doorbell(3), monotonic=lambda: now)
    now = 1.5

    assert await rest_of(made) == HEARTBEAT


async def test_doorbells__look_as_the_broker_sends_them(broker_url: str, route: str, publisher: Publisher) -> None:
    """If a broker wrote properties anew, all doorbells would go the longer way, and nothing else would tell."""
    source = codec.Source.of(route, 1)
    sent = [
        codec.doorbell(ticket=UUID(int=n), job_id=JOB, namespace=source.namespace, route=route, traceparent=traceparent)
        for n, traceparent in enumerate([None, TRACEPARENT])
    ]
    await publisher.publish(sent)
    doorbells: list[Delivery] = []
    others: list[DeliveredMessage] = []

    async def never(_: DeliveredMessage) -> None:
        raise AssertionError

    async with linked(broker_url, "test") as link:
        channel = await link.channel()
        link.take(channel, Messages(channel, Doorbells(source, channel.number), doorbells.append, others.append))
        await link.answer(channel.basic_consume(route, never, consumer_tag=consumer_tag(7)))

        async def have_come() -> bool:
            return len(doorbells) + len(others) == len(sent)

        await eventually(have_come)

    assert [one.ticket for one in doorbells] == [UUID(int=0), UUID(int=1)]
