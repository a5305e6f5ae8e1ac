from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.texts import first_part, last_part, redacted, shown, storable
from tests.hostile_values import HUGE, deep


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:secret@db/x", "postgresql://app:***@db/x"),
        ("amqps://:secret@h:5671/v failed", "amqps://:***@h:5671/v failed"),
        ("amqp://u:pa/ss@wo@rd@host/", "amqp://u:***@host/"),
        ("amqp://u:12345@host/", "amqp://u:***@host/"),
        ("(postgresql+psycopg://a:b@c)", "(postgresql+psycopg://a:***@c)"),
        ("host=db password=secret user=x", "host=db password=*** user=x"),
        ("host=db password = 'a b' user=x", "host=db password = *** user=x"),
        ("postgresql://db/x?password=secret&a=b", "postgresql://db/x?password=***&a=b"),
        ("http://host:8080/path?mail=a@b.c", "http://host:8080/path?mail=a@b.c"),
        ("postgresql://app@db/x", "postgresql://app@db/x"),
        ("at 12:30 write to a@b.c", "at 12:30 write to a@b.c"),
    ],
)
def test_redacted__hides_passwords_and_nothing_else(text: str, shown: str) -> None:
    assert redacted(text) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=100))
def test_redacted__never_lets_a_password_through(password: str) -> None:
    secret = f"~{password}~"

    assert redacted(f"no answer from amqp://user:{secret}@host/ yet") == "no answer from amqp://user:***@host/ yet"


@given(st.text(st.characters(), max_size=200))
def test_storable__is_utf8_without_nul_and_changes_nothing_else(text: str) -> None:
    stored = storable(text)

    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert len(stored) == len(text)
    assert all(after in {before, "\ufffd"} for before, after in zip(text, stored, strict=True))


@given(st.text(max_size=300), st.integers(40, 100))
def test_parts__keep_their_limit_and_their_end(text: str, limit: int) -> None:
    first, last = first_part(text, limit), last_part(text, limit)

    assert len(first) <= limit
    assert len(last) <= limit
    if len(text) > limit and redacted(storable(text)) == text:
        assert text.startswith(first.partition(" … (")[0])
        assert text.endswith(last.partition(" …\n")[2])


def test_parts__redact_before_they_cut() -> None:
    text = "x" * 30 + " amqp://user:secret-password@host/"

    assert "sec" not in first_part(text, 52)
    assert "word" not in last_part("amqp://user:secret-password@host/" + "y" * 60, 75)


@pytest.mark.parametrize(
    "hostile", ["a://b:" * 200_000, "a" * 1_000_000 + "://", "password=" * 100_000, ":@" * 400_000]
)
def test_redacted__hostile_texts_cost_little(hostile: str) -> None:
    start = time.process_time()
    first_part(hostile, 2000)

    # 0.1 to 0.5 s where it was measured; a pattern that backtracks takes minutes.
    assert time.process_time() - start < 10


def test_shown__is_the_repr_where_there_is_one() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("a\0") == "'a\\x00'"
    assert len(shown("x" * 10**7)) == 80
    assert [shown(one) for one in (HUGE, deep(), Odd())] == ["<int>", "<list>", "<Odd>"]
