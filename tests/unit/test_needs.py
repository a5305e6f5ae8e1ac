from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from brokerjobs import App, ConfigurationError, JobTypeConflict, Submission, SubmissionRefused, needs
from brokerjobs.rules.need_problems import problems
from brokerjobs.rules.need_texts import read_need
from brokerjobs.rules.needs import as_data, canonical, from_data, needs_hash, worker_needs

ALL = (
    needs.limit("smtp", 10),
    needs.exclusive("account:{account}"),
    needs.has("dataset", "imagenet"),
    needs.one_of("gpu", ["h100", "a100", "h100"]),
    needs.at_least("memory", "2GiB"),
    needs.at_least("cpu", 4),
    needs.equal("os", "linux"),
)


def test_needs__as_data_are_canonical() -> None:
    assert as_data(ALL) == [
        {"kind": "at_least", "name": "cpu", "value": "4", "amount": 4, "unit": ""},
        {"kind": "at_least", "name": "memory", "value": "2GiB", "amount": 2 << 30, "unit": "B"},
        {"kind": "equal", "name": "os", "value": "linux"},
        {"kind": "exclusive", "name": "account:{account}"},
        {"kind": "has", "name": "dataset", "value": "imagenet"},
        {"kind": "limit", "name": "smtp", "limit": 10},
        {"kind": "one_of", "name": "gpu", "values": ["a100", "h100"]},
    ]
    assert as_data([*ALL, *reversed(ALL)]) == as_data(ALL)


def test_needs__come_back_from_their_data() -> None:
    assert from_data(json.loads(json.dumps(as_data(ALL)))) == canonical(ALL)
    for data in ({"kind": "near", "name": "a"}, {"kind": "limit", "name": "a"}, {"name": "a"}, {"kind": "has"}):
        with pytest.raises(ValueError, match="is no need that this release knows"):
            from_data([data])


def test_needs_hash__is_that_of_what_a_worker_must_have() -> None:
    resources = [needs.exclusive("a"), needs.limit("b", 2)]

    assert needs_hash(resources) is None
    assert needs_hash([]) is None
    # Names of queues are made of it: whoever changes it moves every route.
    text = (
        '[{"amount":2147483648,"kind":"at_least","name":"memory","unit":"B"},'
        '{"amount":4,"kind":"at_least","name":"cpu","unit":""},'
        '{"kind":"equal","name":"os","value":"linux"},'
        '{"kind":"has","name":"dataset","value":"imagenet"},'
        '{"kind":"one_of","name":"gpu","values":["a100","h100"]}]'
    )
    assert needs_hash(ALL) == hashlib.sha256(text.encode()).hexdigest()[:12] == "d68c482f8090"
    assert needs_hash(worker_needs(ALL)) == needs_hash(ALL)
    assert needs_hash(ALL[:-1]) != needs_hash(ALL)


def test_needs_hash__is_the_same_for_the_same_quantity_and_order() -> None:
    one = [needs.at_least("memory", "2GiB"), needs.at_least("memory", "4MB")]
    other = [needs.at_least("memory", "4000kB"), needs.at_least("memory", "2048MiB")]

    assert needs_hash(one) == needs_hash(other)
    assert needs_hash(one) != needs_hash([needs.at_least("memory", "2GiB"), needs.at_least("memory", "4MiB")])
    assert needs_hash([needs.at_least("cpu", 2.0)]) == needs_hash([needs.at_least("cpu", "2")])


@pytest.mark.parametrize(
    ("need", "says"),
    [
        (needs.equal("OS", "linux"), "needs.equal('OS', 'linux'): name 'OS' is not 1 to 100 lower-case letters"),
        (needs.equal("a" * 101, "b"), "is not 1 to 100 lower-case letters, digits, _ - ."),
        (needs.equal("", "b"), "name '' is not 1 to 100"),
        (needs.equal("os", ""), "'' is not 1 to 200 printable characters"),
        (needs.equal("os", "x" * 201), "is not 1 to 200 printable characters"),
        (needs.has("dataset", "a\nb"), r"'a\nb' is not 1 to 200 printable characters"),
        (needs.has("dataset", 3), "3 is not 1 to 200 printable characters"),  # type: ignore[arg-type]  # what is tested
        (needs.one_of("gpu", []), "needs.one_of('gpu', ()): it has no values, so that no worker would do"),
        (needs.one_of("gpu", ["a", ""]), "'' is not 1 to 200"),
        (needs.at_least("memory", "much"), "'much' is not a quantity; write a number"),
        (needs.at_least("memory", 1e20), "'1e+20' is not a quantity"),
        (needs.at_least("python", "3.9"), "python is a version, not a quantity: as a number 3.9 is more than 3.11"),
        (needs.exclusive(""), "the name is not 1 to 200 printable characters"),
        (needs.exclusive("a:{b"), "the name has a brace without its other one"),
        (needs.exclusive("a:b}"), "the name has a brace without its other one"),
        (needs.exclusive("a:{b c}"), "the name asks for {b c}, which is no field of a payload"),
        (needs.exclusive("{}"), "the name asks for {}, which is no field of a payload"),
        (needs.exclusive("{items.0}"), "the name asks for {items.0}, which is no field of a payload"),
        (needs.limit("smtp", 0), "limit 0 is not a whole number from 1 to 1000"),
        (needs.limit("smtp", 1001), "limit 1001 is not a whole number from 1 to 1000"),
        (needs.limit("smtp", True), "limit True is not a whole number"),
        (needs.limit("smtp", 2.5), "limit 2.5 is not a whole number"),  # type: ignore[arg-type]  # what is tested
        (needs.limit("{", 1), "the name has a brace without its other one"),
        ("gpu=a100", "'gpu=a100' is no need; make one with brokerjobs.needs"),
    ],
)
def test_problems__say_which_need_cannot_be(need: Any, says: str) -> None:
    (problem,) = problems([needs.equal("os", "linux"), need])

    assert says in problem


def test_problems__of_many_needs() -> None:
    assert list(problems(ALL)) == []
    assert list(problems([needs.has("a", str(n)) for n in range(32)])) == []
    assert list(problems([needs.has("a", str(n)) for n in range(33)])) == ["there are 33 needs, over the limit of 32"]
    assert list(problems(needs.has("a", "b"))) == ["needs=Has(name='a', value='b') is no list of needs"]
    two = [needs.equal("os", "linux"), needs.equal("os", "darwin"), needs.equal("os", "linux")]
    assert list(problems(two)) == ["os cannot be both linux and darwin; use needs.one_of"]


def test_one_of__takes_one_text_for_itself() -> None:
    assert as_data([needs.one_of("gpu", "a100")])[0]["values"] == ["a100"]


@pytest.mark.parametrize(
    "text",
    ["gpu=a100", "gpu=a100|h100", "memory>=32GiB", "dataset:imagenet", "exclusive:account:7", "limit:a:b:10", "a:b=c"],
)
def test_read_need__reads_what_a_need_is_shown_as(text: str) -> None:
    need = read_need(text)

    assert str(need) == text
    assert list(problems([need])) == []


@pytest.mark.parametrize("text", ["", "gpu", "gpu=", "=a", "gpu>4", "exclusive:", "limit:smtp", "limit:smtp:many"])
def test_read_need__lists_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no need; write gpu=a100, gpu=a100\|h100, memory>=32GiB"):
        read_need(text)


def test_job_type__has_its_needs_as_data() -> None:
    kind = App("shop").job_type("charge", dict[str, str], None, repeatable=True, needs=list(ALL))

    assert kind.terms.needs == canonical(ALL)
    data = kind.as_data()
    assert (data["needs"], data["needs_hash"]) == (as_data(ALL), needs_hash(ALL))


def test_job_type__refuses_needs_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match=r"job type 'a':\n  needs.has\('GPU', 'b'\): name 'GPU' is not"):
        App("shop").job_type("a", int, None, repeatable=True, needs=[needs.has("GPU", "b")])
    with pytest.raises(ConfigurationError, match=r"job type 'a':\n  needs='gpu' is no list of needs"):
        App("shop").job(name="a", repeatable=True, needs="gpu")  # type: ignore[arg-type]  # what is tested


def test_job_type__declared_twice_shows_needs_that_differ() -> None:
    app = App("shop")
    app.job_type("a", int, None, repeatable=True, needs=[needs.has("b", "c"), needs.equal("os", "linux")])
    app.job_type("a", int, None, repeatable=True, needs=[needs.equal("os", "linux"), needs.has("b", "c")])

    with pytest.raises(JobTypeConflict, match=r"needs: os=linux, b:c, then none"):
        app.job_type("a", int, None, repeatable=True)


def test_submission__refuses_needs_and_priorities_that_cannot_be() -> None:
    with pytest.raises(SubmissionRefused, match=r"needs.limit\('smtp', 0\): limit 0 is not"):
        Submission(1, needs=[needs.limit("smtp", 0)])
    with pytest.raises(SubmissionRefused, match="priority='urgent' is none of high, normal, low"):
        Submission(1, priority="urgent")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(SubmissionRefused, match="priority=None is none of"):
        Submission(1, priority=None)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(SubmissionRefused, match="needs=None is no list of needs"):
        Submission(1, needs=None)  # type: ignore[arg-type]  # what is tested
