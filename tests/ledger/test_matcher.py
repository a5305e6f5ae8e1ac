"""The matcher of rules/placement.py, its twin in SQL, and a third that only counts on its fingers agree."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from brokerjobs import needs
from brokerjobs.rules import capabilities
from brokerjobs.rules.need_problems import problems
from brokerjobs.rules.needs import as_data
from brokerjobs.rules.placement import unmet
from brokerjobs.rules.quantities import read_quantity
from tests.ledger.inner import asked

if TYPE_CHECKING:
    from brokerjobs.rules.needs import Need
    from tests.ledger.ledger_driver import Ledger

# The ledger's state does not matter: every example only calls immutable functions.
many = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],  # an example has many pairs, and the assertion shows the one that differs
)

NAMES = ["os", "gpu", "memory", "cpu", "d"]
UNITS = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30, "TB": 10**12}
UNITS["TiB"] = 1 << 40

numbers = st.one_of(
    st.integers(0, 5).map(str),
    st.sampled_from(["0.5", "1.0", "1.001", "2.5", "1024", "1000", "999999999999.999", "999999999999.998", "007"]),
)
quantities = st.builds("{}{}{}".format, numbers, st.just(""), st.sampled_from(["", "", *UNITS]))
words = st.sampled_from(["linux", "a100", "h100", "x", "ä", 'say "it"', "a\\b", "1", "1GiB"])
texts = st.one_of(words, quantities, st.builds("{} {}".format, numbers, st.sampled_from(list(UNITS))))
has = st.dictionaries(st.sampled_from(NAMES), st.lists(texts, min_size=1, max_size=3), max_size=4)
names = st.sampled_from(NAMES)
some_needs = st.lists(
    st.one_of(
        st.builds(needs.equal, names, texts),
        st.builds(needs.one_of, names, st.lists(texts, min_size=1, max_size=3)),
        st.builds(needs.has, names, texts),
        st.builds(needs.at_least, names, quantities),
        st.builds(needs.exclusive, names),
        st.builds(needs.limit, names, st.integers(1, 9)),
    ),
    max_size=6,
)


def by_hand(need: dict[str, Any], has: dict[str, list[str]]) -> bool:
    """Is a need met? Written for this test, from the words of the reference."""
    here = set(has.get(need["name"], ()))
    match need["kind"]:
        case "equal":
            return here == {need["value"]}
        case "one_of":
            return bool(here & set(need["values"]))
        case "has":
            return need["value"] in here
        case "at_least":
            if len(here) != 1:
                return False
            wanted, there = amount(need["value"]), amount(next(iter(here)))
            return wanted is not None and there is not None and wanted[1] == there[1] and there[0] >= wanted[0]
        case _:
            return True


def amount(text: str) -> tuple[Fraction, str] | None:
    for unit in sorted(UNITS, key=len, reverse=True):
        if text.endswith(unit):
            number = text[: -len(unit)].removesuffix(" ")
            return (Fraction(int(Fraction(number) * UNITS[unit])), "bytes") if is_number(number) else None
    return (Fraction(text), "") if is_number(text) else None


def is_number(text: str) -> bool:
    return bool(text) and set(text) <= set("0123456789.")


def in_sql(ledger: Ledger, pairs: list[tuple[list[Need], dict[str, list[str]]]]) -> list[list[dict[str, Any]]]:
    wanted = [json.dumps(as_data(one)) for one, _ in pairs]
    there = [json.dumps(capabilities.of(one).as_data()) for _, one in pairs]
    query = (
        "select unmet_needs(n::jsonb, c::jsonb)"
        " from unnest(%s::text[], %s::text[]) with ordinality p (n, c, i) order by i"
    )
    return asked(ledger, query, wanted, there)


# One of everything, whatever chance brings.
SEVERAL = {"gpu": ["a100", "h100"], "memory": ["16GiB"], "cpu": ["4"], "d": ["1", "2"], "os": ["linux"]}
EACH: list[Need] = [
    *(needs.equal("gpu", "a100"), needs.equal("gpu", "x"), needs.equal("os", "linux"), needs.equal("x", "a")),
    *(needs.one_of("gpu", ["x", "h100"]), needs.one_of("gpu", ["x", "y"]), needs.one_of("x", ["a"])),
    *(needs.has("gpu", "h100"), needs.has("gpu", "h10"), needs.has("os", "linux"), needs.has("x", "a")),
    *(needs.at_least("memory", "16384MiB"), needs.at_least("memory", "16.001GiB"), needs.at_least("memory", 1)),
    *(needs.at_least("cpu", 4), needs.at_least("cpu", 4.5), needs.at_least("cpu", "1B"), needs.at_least("d", 1)),
    *(needs.exclusive("x"), needs.limit("x", 1)),
]


@many
@example([(EACH, SEVERAL), (EACH, {})])
@given(st.lists(st.tuples(some_needs, has), min_size=1, max_size=40))
def test_matchers__agree(ledger: Ledger, pairs: list[tuple[list[Need], dict[str, list[str]]]]) -> None:
    expected = [[one for one in as_data(wanted) if not by_hand(one, there)] for wanted, there in pairs]

    python = [as_data(one.need for one in unmet(wanted, capabilities.of(there))) for wanted, there in pairs]

    assert python == expected
    assert in_sql(ledger, pairs) == expected


@pytest.mark.parametrize("there", [None, {}, {"gpu": "a100"}, {"gpu": {"a100": 1}}, {"": 1}, [], "gpu"])
def test_unmet_needs__of_a_strange_heartbeat_are_all(ledger: Ledger, there: Any) -> None:
    wanted = as_data([needs.has("gpu", "a100"), needs.equal("gpu", "a100"), needs.at_least("memory", "1B")])

    told = None if there is None else json.dumps(there)
    [found] = asked(ledger, "select unmet_needs(%s, %s)", json.dumps(wanted), told)

    assert found == wanted


def test_unmet_needs__of_a_need_of_a_later_release_is_that_need(ledger: Ledger) -> None:
    later = [{"kind": "near", "name": "gpu"}]

    [found] = asked(ledger, "select unmet_needs(%s, %s)", json.dumps(later), '{"gpu": ["a"]}')
    [nothing] = asked(ledger, "select unmet_needs(null, null)")

    assert (found, nothing) == (later, [])


@many
@given(st.lists(st.one_of(texts, st.text("0123456789. BkKMGTi+-e\n", max_size=16)), min_size=1, max_size=60))
def test_quantities__are_read_alike(ledger: Ledger, said: list[str]) -> None:
    rows = asked(ledger, "select quantity_of(t) from unnest(%s::text[]) t", said)

    python = [read_quantity(text) for text in said]
    assert rows == [one and {"amount": one.amount, "unit": one.unit} for one in python]


NOTHING: dict[str, Any] = {}
GOOD = [
    needs.equal("os", "linux"),
    needs.one_of("gpu", ["a100", "h100"]),
    needs.at_least("memory", "1.5 GiB"),
    needs.has("data.set-1_x", "ä b"),
    needs.exclusive("account:{customer.id}/{a_b-c}"),
    needs.exclusive("x" * 200),
    needs.limit("smtp", 1000),
]
BAD = [
    needs.equal("OS", "linux"),
    needs.equal("a" * 101, "b"),
    needs.equal("", "b"),
    needs.equal("os", ""),
    needs.has("os", "x" * 201),
    needs.has("os", "a\nb"),
    needs.one_of("gpu", []),
    needs.one_of("gpu", [""]),
    needs.at_least("python", "3.9"),
    needs.exclusive(""),
    needs.exclusive("x" * 201),
    needs.exclusive("a\tb"),
    *map(needs.exclusive, ("a:{b", "a:b}", "{}", "{a b}", "{items.0}", "{a.}", "{.a}", "{{a}}", "{a{b}}", "}{")),
    needs.limit("a", 0),
    needs.limit("a", 1001),
    needs.limit("{", 1),
]


@pytest.mark.parametrize("need", [*GOOD, *BAD], ids=str)
def test_needs_problem__is_found_by_both(ledger: Ledger, need: Need) -> None:
    [found] = asked(ledger, "select needs_problem(%s)", json.dumps([need.as_data()]))

    assert bool(found) == bool(list(problems([need]))) == (need in BAD)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (NOTHING, "needs are of type object, not a list"),
        (None, "needs are of type null, not a list"),
        ([{"kind": "has", "name": "a", "value": "b"}] * 33, "there are 33 needs, over the limit of 32"),
        ([1], "need 1: it is not an object"),
        ([NOTHING], "need {}: its kind is none of equal, one_of, at_least, has, exclusive and limit"),
        ([{"kind": "has", "name": 1, "value": "b"}], "its name is not 1 to 100 lower-case letters"),
        ([{"kind": "has", "name": "a"}], "its value is not 1 to 200 printable characters"),
        ([{"kind": "has", "name": "a", "value": 1}], "its value is not 1 to 200 printable characters"),
        ([{"kind": "one_of", "name": "a", "values": "b"}], "its values are no list of texts"),
        ([{"kind": "one_of", "name": "a", "values": [1]}], "its values are not 1 to 200 printable characters each"),
        ([{"kind": "at_least", "name": "a", "value": "much"}], "its value is not a quantity"),
        (
            [{"kind": "at_least", "name": "a", "value": "2", "amount": 3}],
            "its amount and unit are not what its value says",
        ),
        (
            [{"kind": "at_least", "name": "a", "value": "2", "unit": "B"}],
            "its amount and unit are not what its value says",
        ),
        ([{"kind": "limit", "name": "a"}], "its limit is not a whole number from 1 to 1000"),
        ([{"kind": "limit", "name": "a", "limit": 1.5}], "its limit is not a whole number from 1 to 1000"),
        ([{"kind": "exclusive"}], "its name is not 1 to 200 printable characters"),
    ],
)
def test_needs_problem__says_what_is_wrong(ledger: Ledger, said: Any, problem: str) -> None:
    [found] = asked(ledger, "select needs_problem(%s)", json.dumps(said))

    assert problem in found


def test_needs_in_order__are_canonical_with_their_amounts(ledger: Ledger) -> None:
    given = [
        {"kind": "limit", "name": "smtp", "limit": 3},
        {"kind": "at_least", "name": "memory", "value": "2GiB"},
        {"kind": "at_least", "name": "memory", "value": "2GiB", "amount": 2 << 30},
        {"kind": "at_least", "name": "cpu", "value": "0.5"},
        {"kind": "limit", "name": "smtp", "limit": 3},
    ]

    [found] = asked(ledger, "select needs_in_order(%s)", json.dumps(given))
    [none] = asked(ledger, "select needs_in_order('[]')")

    assert found == as_data([needs.limit("smtp", 3), needs.at_least("memory", "2GiB"), needs.at_least("cpu", "0.5")])
    assert none is None
