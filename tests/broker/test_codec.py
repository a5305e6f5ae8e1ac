from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from aiormq.abc import DeliveredMessage
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokerjobs.broker import codec, names
from brokerjobs.broker.frame_decoder import DamagedHeader
from brokerjobs.broker.protocol import Delivery, Probe, Unreadable

JOB = UUID("018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a")
ROUTE = "payments.q.default"


def arrived(
    body: bytes | None = None,
    *,
    exchange: str = "payments.jobs",
    routing_key: str = ROUTE,
    message_type: str | None = names.DOORBELL_TYPE,
    message_id: str | None = "d4e5c1fc-8a55-4f23-8b3b-0f3b8d1c2a11",
    header: ContentHeader | None = None,
) -> Delivery | Probe | Unreadable:
    """Read a message that differs from a doorbell in what is given."""
    properties = Basic.Properties(message_id=message_id, message_type=message_type, delivery_mode=2)
    message = DeliveredMessage(
        delivery=Basic.Deliver("ctag", 7, redelivered=True, exchange=exchange, routing_key=routing_key),
        header=header or ContentHeader(properties=properties),
        body=codec.encode_doorbell(JOB) if body is None else body,
        channel=None,  # type: ignore[arg-type]  # reading does not look at it
    )
    return codec.read(message, codec.Source.of(ROUTE, 3), received=12.5, received_at=datetime(2030, 1, 1, tzinfo=UTC))


def test_doorbell__has_the_documented_form() -> None:
    ticket = uuid4()
    message = codec.doorbell(ticket=ticket, job_id=JOB, namespace="payments", route=ROUTE)

    assert json.loads(message.body) == {"v": 1, "job": str(JOB)}
    assert (message.exchange, message.routing_key) == ("payments.jobs", ROUTE)
    assert (message.message_id, message.type) == (ticket, "brokerjobs.doorbell")


def test_probe__goes_where_doorbells_go_and_is_read_there() -> None:
    sent = codec.probe(ticket=(ticket := uuid4()), namespace="payments", route=ROUTE)

    assert (sent.exchange, sent.routing_key, sent.type) == ("payments.jobs", ROUTE, "brokerjobs.probe")
    read = arrived(sent.body, message_type=sent.type, message_id=str(sent.message_id))
    assert read == Probe(ticket=ticket, route=ROUTE, generation=3, tag=7)


def test_reads__names_all_that_is_read() -> None:
    assert codec.READS == ("doorbell/1", "probe/1")


def test_dead_letter__goes_by_its_job_type() -> None:
    message = codec.dead_letter(ticket=uuid4(), namespace="payments", job_type="payment.charge", record='{"id": "é"}')

    assert (message.exchange, message.routing_key) == ("payments.dead", "payment.charge")
    assert message.body == '{"id": "é"}'.encode()


def test_review__goes_where_dead_letters_go_by_a_key_of_its_own() -> None:
    message = codec.review_opened(ticket=uuid4(), namespace="payments", job_type="payment.charge", record="{}")

    assert (message.exchange, message.routing_key) == ("payments.dead", "review.payment.charge")
    assert (message.type, message.body) == ("brokerjobs.review", b"{}")


@pytest.mark.parametrize(
    ("given_header", "sent"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", False),
        ("anything else", False),
    ],
)
def test_doorbell__sends_only_a_trace_context(given_header: str, sent: bool) -> None:
    message = codec.doorbell(ticket=uuid4(), job_id=JOB, namespace="payments", route=ROUTE, traceparent=given_header)

    assert message.traceparent == (given_header if sent else None)


@given(st.uuids())
def test_decode_doorbell__reads_what_encode_doorbell_wrote(job_id: UUID) -> None:
    assert codec.decode_doorbell(codec.encode_doorbell(job_id)) == job_id


@given(st.binary(max_size=2000))
def test_decode_doorbell__never_raises(body: bytes) -> None:
    assert isinstance(codec.decode_doorbell(body), UUID | codec.Malformed)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 1000, "not JSON"),
        (b'{"v":1,"job":"018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a"', "not JSON"),
        (b'{"v":1,"job":"' + b"x" * 2000 + b'"}', "at most 1024"),
        (b'{"v":2,"job":"018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a"}', "version 2"),
        (b'{"v":%s,"job":1}' % (b"9" * 900), "version 999"),
        (b'{"v":true,"job":"018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a"}', "not a number"),
        (b'{"v":1.0,"job":"018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a"}', 'not {"v": 1'),
        (b'{"v":1}', 'not {"v": 1'),
        (b'{"v":1,"job":null}', 'not {"v": 1'),
        (b'{"v":1,"job":"018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a","x":1}', 'not {"v": 1'),
        (b'[["v",1],["job","018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a"]]', 'not {"v": 1'),
        (b"null", 'not {"v": 1'),
        (b'{"v":1,"job":"018F4D3A-7C1E-7B3A-9C2D-1F2E3D4C5B6A"}', "usual form"),
        (b'{"v":1,"job":"{018f4d3a-7c1e-7b3a-9c2d-1f2e3d4c5b6a}"}', "usual form"),
        (b'{"v":1,"job":"nonsense"}', "usual form"),
    ],
)
def test_decode_doorbell__says_what_is_wrong(body: bytes, reason: str) -> None:
    decoded = codec.decode_doorbell(body)

    assert isinstance(decoded, codec.Malformed)
    assert reason in decoded.reason


def test_read__gives_a_delivery() -> None:
    assert arrived() == Delivery(
        ticket=UUID("d4e5c1fc-8a55-4f23-8b3b-0f3b8d1c2a11"),
        job_id=JOB,
        namespace="payments",
        route=ROUTE,
        redelivered=True,
        generation=3,
        tag=7,
        received=12.5,
        received_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (arrived(exchange=""), "came by exchange '' instead of 'payments.jobs'"),
        (arrived(exchange="orders.jobs"), "came by exchange 'orders.jobs'"),
        (arrived(routing_key="payments.q.other"), "came by routing key 'payments.q.other'"),
        (arrived(message_type=None), "its type is None"),
        (arrived(message_type="brokerjobs.dead"), "its type is 'brokerjobs.dead'"),
        (arrived(message_id=None), "message_id is not a UUID"),
        (arrived(message_id="x" * 255), "message_id is not a UUID"),
        (arrived(b"{}"), "the body is not"),
        (arrived(b'{"v":2}', message_type=names.PROBE_TYPE), "no probe of version 1"),
        (arrived(message_type=names.PROBE_TYPE), "no probe of version 1"),
        (arrived(b'{"v":1}', message_type=names.PROBE_TYPE, message_id="x"), "no probe of version 1"),
        (arrived(b'{"v":1}', message_type=names.PROBE_TYPE, exchange=""), "came by exchange ''"),
    ],
)
def test_read__says_why_a_message_is_no_doorbell(read: Delivery | Unreadable, reason: str) -> None:
    assert isinstance(read, Unreadable)
    assert reason in read.reason
    assert (read.route, read.generation, read.tag) == (ROUTE, 3, 7)


def test_read__keeps_what_can_be_read_of_a_foreign_message() -> None:
    read = arrived(exchange="")

    assert isinstance(read, Unreadable)
    assert (str(read.ticket), read.job_id) == ("d4e5c1fc-8a55-4f23-8b3b-0f3b8d1c2a11", JOB)


def test_read__digests_tell_messages_apart() -> None:
    first, second, third = arrived(b"1"), arrived(b"2"), arrived(b"1", message_type="other")

    assert isinstance(first, Unreadable)
    assert isinstance(second, Unreadable)
    assert isinstance(third, Unreadable)
    assert first.headers_digest == second.headers_digest != third.headers_digest
    assert first.body_digest == third.body_digest != second.body_digest


def test_read__names_the_damage() -> None:
    header = DamagedHeader(b"raw bytes")
    header.damage = "timestamp (OverflowError: too large)"

    read = arrived(header=header)

    assert isinstance(read, Unreadable)
    assert read.reason == "its properties cannot be decoded: timestamp (OverflowError: too large)"
