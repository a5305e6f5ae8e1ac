"""Buckets: what is asked of them, what they refuse, and that nothing secret is said of it."""

from __future__ import annotations

import logging
import socket
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from brokerjobs.artifacts import complaints, remote
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.errors import (
    ArtifactStoreFull,
    ArtifactStoreRefused,
    ArtifactStoreUnavailable,
    ConfigurationError,
)
from brokerjobs.rules import texts
from tests.artifacts.objects import MIB, mebibytes, path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.s3 import Door, S3Server

WRONG = "wrong-secret-of-the-tests"


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers at once what would be tried again for twenty seconds."""
    monkeypatch.setattr(remote, "_RETRIES", {"max_retries": 0, "retry_timeout": timedelta(seconds=1)})


def calls(store: ArtifactStore) -> list[Callable[[], object]]:
    """Everything that can be asked of a store."""
    where = path()
    return [
        lambda: store.put(where, iter([b"1"])),
        lambda: store.put(where, mebibytes(9)),
        lambda: list(store.read(where)),
        lambda: store.size(where),
        lambda: store.delete(where),
        lambda: store.page(None, 10),
    ]


def refusals(store: ArtifactStore, kind: type[Exception]) -> Iterator[str]:
    for call in calls(store):
        with pytest.raises(kind) as raised:
            call()
        yield f"{raised.value!s} {raised.value!r} {vars(raised.value)}"


def test_wrong_secret__is_refused_and_not_repeated(
    server: S3Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = server.options(prefix, secret_access_key=WRONG)
    store = ArtifactStore(options)
    said = [*refusals(store, ArtifactStoreRefused), *store.problems(), caplog.text, repr(options), repr(store)]
    assert len(said) == 10
    for text in said:
        assert WRONG not in text
        assert "\n" not in text.strip()
        assert "Debug source" not in text
    assert "status 403 Forbidden (SignatureDoesNotMatch)" in said[0]
    assert texts.redacted(f"x {WRONG} y") == "x *** y", "what others say of it is to be redacted, too"


def test_missing_bucket__is_no_missing_object(server: S3Server, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, bucket="no-such-bucket"))
    said = list(refusals(store, ArtifactStoreRefused))
    assert all("NoSuchBucket" in text for text in said), said
    assert "NoSuchBucket" in store.problems()[0]


@pytest.mark.usefixtures("no_retries")
def test_unreachable__is_temporary_and_bounded(prefix: str, server: S3Server) -> None:
    store = ArtifactStore(server.options(prefix, endpoint="http://127.0.0.1:9"))
    started = time.monotonic()
    said = list(refusals(store, ArtifactStoreUnavailable))
    assert time.monotonic() - started < 10
    assert not any("?" in text for text in said), "queries of URLs may be signatures"


@pytest.mark.usefixtures("no_retries")
def test_silent_server__is_given_up(server: S3Server, prefix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = ArtifactStore(server.options(prefix, endpoint, timeout="0.3s"))
        started = time.monotonic()
        assert len(list(refusals(store, ArtifactStoreUnavailable))) == 6
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (507, "", ArtifactStoreFull),
        (400, "<Error><Code>XMinioStorageFull</Code></Error>", ArtifactStoreFull),
        (403, "<Error><Code>QuotaExceeded</Code></Error>", ArtifactStoreFull),
        (400, "<Error><Code>InvalidArgument</Code></Error>", ArtifactStoreRefused),
        (401, "", ArtifactStoreRefused),
        (503, "<Error><Code>SlowDown</Code></Error>", ArtifactStoreUnavailable),
        (429, "", ArtifactStoreUnavailable),
        (404, "<Error><Code>NoSuchUpload</Code></Error>", ArtifactStoreUnavailable),  # the server was started anew
        (404, "<Error><Code>NoSuchBucket</Code></Error>", ArtifactStoreRefused),
    ],
)
@pytest.mark.usefixtures("no_retries")
def test_answers__are_full_refused_or_temporary(
    server: S3Server, door: Door, status: int, body: str, kind: type[Exception]
) -> None:
    store = ArtifactStore(server.options("answers", door.endpoint))
    door.breaks = lambda _: (status, body)
    with pytest.raises(kind):
        store.put(path(), iter([b"1"]))
    with pytest.raises(kind):
        store.put(path(), mebibytes(9))


def test_server_errors__are_tried_again(server: S3Server, door: Door, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, door.endpoint))
    left = [503, 500]
    door.breaks = lambda _: (left.pop(), "") if left else None
    where = path()
    store.put(where, iter([b"123"]))
    assert b"".join(store.read(where)) == b"123"
    assert len(door.requests) == 5, "two refused, a put, a head and a range"


def test_small_object__is_one_request(server: S3Server, door: Door, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, door.endpoint))
    store.put(path(), mebibytes(8))
    assert [asked.split(" ")[0] for asked in door.requests] == ["PUT"]


def test_large_object__is_uploaded_in_parts_and_given_up_as_a_whole(server: S3Server, door: Door, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, door.endpoint))

    def breaking() -> Iterator[bytes]:
        yield from mebibytes(30)
        raise KeyError

    with pytest.raises(KeyError):
        store.put(path(), breaking())
    asked = [one.split(" ")[0] for one in door.requests]
    assert asked[0] == "POST"
    assert "PUT" in asked
    assert asked[-1] == "DELETE", "the upload is to be aborted, else its parts are kept and paid for, unseen"
    assert "uploadId=" in door.requests[-1]


def test_ranges__are_bounded(server: S3Server, door: Door, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, door.endpoint))
    where = path()
    store.put(where, mebibytes(30))
    assert sum(map(len, store.read(where))) == 30 * MIB
    assert sorted(door.ranges) == [(start * MIB, min(start + 8, 30) * MIB - 1) for start in range(0, 30, 8)], (
        "a request for the whole would have to end within its time limit, however large it is"
    )


def test_ranges__few_are_asked_for_before_they_are_taken(server: S3Server, door: Door, prefix: str) -> None:
    store = ArtifactStore(server.options(prefix, door.endpoint))
    where = path()
    store.put(where, mebibytes(64))
    pieces = store.read(where)
    next(pieces)
    assert len(door.ranges) <= 4
    pieces.close()  # type: ignore[attr-defined]  # a generator


def test_server_without_ranges__is_asked_for_them_once(server: S3Server, door: Door, prefix: str) -> None:
    door.has_ranges = False
    store = ArtifactStore(server.options(prefix, door.endpoint))
    where = path()
    store.put(where, mebibytes(9))
    assert sum(map(len, store.read(where))) == 9 * MIB
    asked = len(door.ranges)
    assert sum(map(len, store.read(where))) == 9 * MIB
    assert asked == len(door.ranges) == 2


@pytest.mark.parametrize("name", ["endpoint", "aws_endpoint", "AWS_ENDPOINT_URL"])
def test_http__is_for_loopback_or_where_it_is_allowed(name: str) -> None:
    def made(endpoint: str, **other: str) -> ArtifactStore:
        return ArtifactStore(StoreOptions(url="s3://bucket/x", options={name: endpoint, **other}))

    with pytest.raises(ConfigurationError, match="without TLS"):
        made("http://store.example:9000")
    for endpoint in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://store.example"):
        made(endpoint)
    made("http://store.example:9000", allow_http="true")


@pytest.mark.usefixtures("no_retries")
def test_http__of_the_environment_is_not_allowed_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid:9000")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-environment")
    store = ArtifactStore(StoreOptions(url="s3://bucket/x"))
    with pytest.raises(ArtifactStoreRefused):
        store.size(path())
    assert texts.redacted("secret-of-environment") == "***"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/x", {"nonsense": "secret-value"}),
        ("az://container/x", {}),
        ("s3://bucket/x", {"endpoint": "http://user:secret-value@store.example"}),
    ],
)
def test_options__that_do_not_fit_name_the_setting(url: str, options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ArtifactStore(StoreOptions(url=url, options=options))
    assert "artifacts.options" in str(raised.value)
    assert "secret-value" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_extra__missing_is_said_of_buckets_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "brokerjobs.artifacts.remote", raising=False)
    with pytest.raises(ConfigurationError, match=r"brokerjobs\[artifacts\]"):
        ArtifactStore(StoreOptions(url="s3://bucket/x"))
    ArtifactStore(StoreOptions(url=str(tmp_path_factory.mktemp("store"))))


def test_signed_urls__are_cut() -> None:
    said = complaints.one_line(
        "Error performing GET https://b.example/k?X-Amz-Signature=abc&sig=def in 3s - HTTP error: x\n\nDebug source:\n"
    )
    assert said == "GET https://b.example/k: HTTP error: x"
