from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.rules.quantities import Quantity, parse_quantity, read_quantity


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("0", 0, ""),
        ("4", 4, ""),
        ("4.0", 4, ""),
        ("0.5", 0.5, ""),
        ("007", 7, ""),
        ("999999999999.999", 999999999999.999, ""),
        ("1B", 1, "B"),
        ("1kB", 1000, "B"),
        ("1KiB", 1024, "B"),
        ("1.5 MB", 1_500_000, "B"),
        ("2GiB", 2 << 30, "B"),
        ("2048MiB", 2 << 30, "B"),
        ("3GB", 3 * 10**9, "B"),
        ("1TiB", 1 << 40, "B"),
        ("1TB", 10**12, "B"),
        ("0.001KiB", 1, "B"),
        ("0.0B", 0, "B"),
    ],
)
def test_quantity__is_a_number_with_or_without_a_unit_of_bytes(text: str, amount: float, unit: str) -> None:
    assert parse_quantity(text) == Quantity(amount, unit)
    assert json.loads(json.dumps(parse_quantity(text).amount)) == amount


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " 1",
            "1 ",
            "-1",
            "+1",
            "1e3",
            "1.",
            ".5",
            "1.2345",
            "1234567890123",
            "1KB",
            "1mB",
            "1 GiB x",
            "1  B",
            "GiB",
        ),
        *("nan", "inf", "1,5", "٣", "1\n", 4, None, "1gib"),
    ],
)
def test_quantity__refuses_what_is_none(text: object) -> None:
    assert read_quantity(text) is None
    with pytest.raises(ValueError, match="is not a quantity; write a number with at most 12 digits"):
        parse_quantity(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "B"]))
def test_quantity__is_read_from_its_own_text(amount: int, unit: str) -> None:
    quantity = Quantity(amount % 10**12, unit)

    assert parse_quantity(str(quantity)) == quantity


def test_quantity__shows_the_shortest_text() -> None:
    assert [str(parse_quantity(text)) for text in ("2048MiB", "1536MiB", "1000B", "0B", "0.25")] == [
        "2GiB",
        "1536MiB",
        "1000B",
        "0B",
        "0.25",
    ]
