from __future__ import annotations

import struct

import aio_pika
import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import constants
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokerjobs.broker import frame_decoder
from brokerjobs.broker.frame_decoder import DamagedHeader
from brokerjobs.broker.own_context import ours
from tests.broker import raw


@pytest.fixture(autouse=True, scope="module")
def installed() -> None:
    frame_decoder.install()


HOSTILE_PROPERTIES = {
    "timestamp beyond year 9999": {raw.TIMESTAMP: struct.pack(">Q", 2**63)},
    "T field beyond year 9999": {raw.HEADERS: raw.table(b"\x01aT" + struct.pack(">Q", 2**63))},
    "content type not UTF-8": {raw.CONTENT_TYPE: raw.short(b"\xff\xfe")},
    "header key not UTF-8": {raw.HEADERS: raw.table(b"\x02\xff\xfet\x01")},
    "tables nested too deep": {raw.HEADERS: raw.nested_tables(1100)},
}


def header(properties: dict[int, bytes], body: bytes = b"x", tail: bytes = b"") -> bytes:
    values = b"".join(value for _, value in sorted(properties.items(), reverse=True))
    payload = struct.pack(">HHQH", 60, 0, len(body), sum(properties)) + values + tail
    return raw.frame(constants.FRAME_HEADER, 7, payload)


@pytest.mark.parametrize("properties", HOSTILE_PROPERTIES.values(), ids=HOSTILE_PROPERTIES)
def test_unmarshal__keeps_what_can_be_decoded(properties: dict[int, bytes]) -> None:
    data = header({raw.MESSAGE_ID: raw.short(b"ticket"), **properties}, body=b"four")

    with ours():
        size, channel, decoded = pamqp.frame.unmarshal(data)

    assert isinstance(decoded, DamagedHeader)
    assert (size, channel, decoded.body_size) == (len(data), 7, 4)
    assert decoded.properties.message_id == "ticket"
    assert decoded.damage


@pytest.mark.parametrize("properties", HOSTILE_PROPERTIES.values(), ids=HOSTILE_PROPERTIES)
def test_unmarshal__fails_as_ever_for_everybody_else(properties: dict[int, bytes]) -> None:
    with pytest.raises((pamqp.exceptions.UnmarshalingException, OverflowError, RecursionError)):
        pamqp.frame.unmarshal(header(properties))


def test_unmarshal__does_not_decode_large_properties() -> None:
    """pamqp would: it takes seconds of one core for a valid table of 120 kB."""
    data = header({raw.HEADERS: raw.table(b"\x01aA" + raw.table(b"V" * 120_000))})

    with ours():
        decoded = pamqp.frame.unmarshal(data)[2]

    assert isinstance(decoded, DamagedHeader)
    assert decoded.damage == "headers (120011 bytes, at most 8192 are decoded)"
    assert decoded.properties.headers is None


def test_unmarshal__keeps_a_delivery_by_names_that_are_not_utf8() -> None:
    payload = struct.pack(">I", Basic.Deliver.index) + raw.short(b"ctag1") + struct.pack(">Q?", 42, True)
    data = raw.frame(constants.FRAME_METHOD, 3, payload + raw.short(b"ex\xff") + raw.short(b"\xfe"))

    with ours():
        decoded = pamqp.frame.unmarshal(data)[2]

    assert isinstance(decoded, Basic.Deliver)
    assert (decoded.consumer_tag, decoded.delivery_tag, decoded.redelivered) == ("ctag1", 42, True)
    assert (decoded.exchange, decoded.routing_key) == ("ex\\xff", "\\xfe")


def test_unmarshal__saves_no_other_frame() -> None:
    payload = struct.pack(">I", Basic.GetOk.index) + struct.pack(">Q?", 1, False) + raw.short(b"\xff")

    with ours(), pytest.raises(pamqp.exceptions.UnmarshalingException):
        pamqp.frame.unmarshal(raw.frame(constants.FRAME_METHOD, 3, payload))


@given(st.binary(max_size=300), st.integers(0, 2**16 - 1))
def test_unmarshal__decodes_every_property_list(values: bytes, flags: int) -> None:
    payload = struct.pack(">HHQH", 60, 0, 9, flags & ~1) + values

    with ours():
        decoded = pamqp.frame.unmarshal(raw.frame(constants.FRAME_HEADER, 1, payload))[2]

    assert isinstance(decoded, ContentHeader)
    assert decoded.body_size == 9


@given(
    st.text(max_size=60),
    st.dictionaries(st.text(max_size=20), st.integers(-(2**31), 2**31 - 1) | st.text() | st.booleans(), max_size=5),
)
def test_unmarshal__leaves_valid_frames_to_the_original(text: str, headers: dict[str, int | str | bool]) -> None:
    properties = Basic.Properties(message_id=text or None, headers=dict(headers) or None, delivery_mode=2)
    data = pamqp.frame.marshal(ContentHeader(properties=properties, body_size=3), 1)

    with ours():
        decoded = pamqp.frame.unmarshal(data)[2]

    assert type(decoded) is ContentHeader
    assert decoded.properties == properties


def test_unmarshal__leaves_large_bodies_alone() -> None:
    data = pamqp.frame.marshal(ContentBody(b"x" * 100_000), 1)

    with ours():
        decoded = pamqp.frame.unmarshal(data)[2]

    assert isinstance(decoded, ContentBody)
    assert len(decoded.value) == 100_000


async def test_wrap__is_where_aiormq_reads_frames(broker_url: str, namespace: str) -> None:
    """A user's own aio-pika in the same process still works, and still falls over a hostile message."""
    queue = f"{namespace}.users-own"
    connection = await aio_pika.connect(broker_url)
    async with connection.channel() as channel:
        declared = await channel.declare_queue(queue, durable=True)
        await raw.publish(
            broker_url,
            raw.RawMessage("", queue.encode(), {raw.TYPE: raw.short(b"fine")}, b"1"),
            raw.RawMessage("", queue.encode(), {raw.TIMESTAMP: struct.pack(">Q", 2**63)}, b"2"),
        )
        got = await declared.get()
        assert (got.type, got.body) == ("fine", b"1")
        with pytest.raises((aio_pika.exceptions.AMQPError, RuntimeError)):
            await declared.get(timeout=5)
    await connection.close()
    await raw.delete(broker_url, queue)
