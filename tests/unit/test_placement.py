"""Which worker meets which needs, and the report on why none does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs import ConfigurationError, needs
from brokerjobs.rules import capabilities, explanation, placement
from brokerjobs.rules.explanation import Seen, explain
from brokerjobs.rules.placement import unmet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.rules.capabilities import Capabilities
    from brokerjobs.rules.needs import Need, WorkerNeed

BIG = {"os": "linux", "gpu": "a100", "memory": "64GiB", "dataset": ["coco", "imagenet"], "cpu": "0.5"}

NOTHING: dict[str, Any] = {}


def misses(need: Need, has: dict[str, Any]) -> list[str]:
    return [one.text for one in unmet([need], capabilities.of(has))]


@pytest.mark.parametrize(
    ("need", "says"),
    [
        (needs.equal("os", "linux"), []),
        (needs.equal("os", "darwin"), ["os is linux, not darwin"]),
        (needs.equal("gpus", "a100"), ["lacks gpus"]),
        (needs.equal("dataset", "coco"), ["dataset is coco, imagenet, not coco"]),
        (needs.one_of("gpu", ["h100", "a100"]), []),
        (needs.one_of("gpu", ["h100", "t4"]), ["gpu is a100, not h100 or t4"]),
        (needs.one_of("dataset", ["imagenet", "x"]), []),
        (needs.one_of("tpu", ["v4"]), ["lacks tpu"]),
        (needs.has("dataset", "imagenet"), []),
        (needs.has("gpu", "a100"), []),
        (needs.has("dataset", "image"), ["lacks dataset image"]),
        (needs.has("tape", "b7"), ["lacks tape b7"]),
        (needs.at_least("memory", "64GiB"), []),
        (needs.at_least("memory", "65536MiB"), []),
        (needs.at_least("memory", "64GB"), []),
        (needs.at_least("memory", "68719476737B"), ["memory 64GiB < 68719476737B"]),
        (needs.at_least("memory", 64), ["memory is 64GiB, not a quantity as 64"]),
        (needs.at_least("cpu", "0.5"), []),
        (needs.at_least("cpu", "0.501"), ["cpu 0.5 < 0.501"]),
        (needs.at_least("os", 1), ["os is linux, not a quantity as 1"]),
        (needs.at_least("dataset", 1), ["dataset is coco, imagenet, not a quantity as 1"]),
        (needs.at_least("disk", "1TB"), ["lacks disk"]),
        (needs.exclusive("os"), []),
        (needs.limit("os", 1), []),
    ],
)
def test_unmet__says_how_a_need_is_failed(need: Need, says: list[str]) -> None:
    assert misses(need, BIG) == says


def test_unmet__shows_a_few_of_many_texts() -> None:
    assert misses(needs.equal("dataset", "x"), {"dataset": list("dcba")}) == ["dataset is a, b, c, …, not x"]


def test_capabilities__declared_go_before_detected_by_name() -> None:
    detected = capabilities.of({"os": "linux", "memory": "64GiB", "dataset": ["a", "b"]})
    declared = capabilities.of({"memory": "16GiB", "dataset": "c", "gpu": "a100"})

    assert str(detected.overridden_by(declared)) == "dataset=c, gpu=a100, memory=16GiB, os=linux"


def test_capabilities__as_data_have_their_quantities_beside_them() -> None:
    made = capabilities.of({"memory": "16GiB", "cpu": "1.5", "gpu": "a100", "ports": ["1", "2"]})

    assert made.as_data() == {
        "": {"cpu": {"amount": 1.5, "unit": ""}, "memory": {"amount": 16 << 30, "unit": "B"}},
        "cpu": ["1.5"],
        "gpu": ["a100"],
        "memory": ["16GiB"],
        "ports": ["1", "2"],
    }
    again = capabilities.from_data(json.loads(json.dumps(made.as_data())))
    assert again == made
    assert hash(again) == hash(made)


@pytest.mark.parametrize("data", [None, 1, [], {"": {"memory": 1}, "a": "b", "c": [], "d": [1]}])
def test_capabilities__of_a_strange_heartbeat_are_none(data: object) -> None:
    assert capabilities.from_data(data) == capabilities.Capabilities()


def test_capabilities__say_everything_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError) as caught:
        capabilities.of({"GPU": "a", "os": "", "x": [], "": "y"})

    assert caught.value.problems == (
        "name 'GPU' is not 1 to 100 lower-case letters, digits, _ - .",
        "os: '' is not 1 to 200 printable characters",
        "x has no text; leave it out",
        "name '' is not 1 to 100 lower-case letters, digits, _ - .",
    )


def seen(name: str, has: dict[str, Any] | None = None, **other: Any) -> Seen:
    return Seen(name=name, capabilities=capabilities.of(has or {}), **{"handles": True, **other})


def said(wanted: Sequence[Need], *workers: Seen) -> dict[str, Any]:
    return explain(wanted, workers, job_type="payments/charge").as_data()


def test_explain__counts_every_unmet_need_and_names_the_nearest_miss() -> None:
    wanted = [needs.at_least("memory", "32GiB"), needs.equal("os", "linux"), needs.has("gpu", "a100")]

    report = said(
        wanted,
        seen("w1", {"memory": "64GiB", "os": "darwin"}),
        seen("w2", {"memory": "16GiB", "os": "linux", "gpu": "a100"}),
        seen("w3", {"memory": "64GiB", "os": "linux", "gpu": "a100"}, handles=False),
    )

    assert report == {
        "workers": 3,
        "qualified": 0,
        "because": "none",
        "unmet": [
            {
                "need": {"kind": "at_least", "name": "memory", "value": "32GiB", "amount": 32 << 30, "unit": "B"},
                "workers": 1,
                "text": "1 memory 16GiB < 32GiB",
            },
            {
                "need": {"kind": "equal", "name": "os", "value": "linux"},
                "workers": 1,
                "text": "1 os is darwin, not linux",
            },
            {"need": {"kind": "has", "name": "gpu", "value": "a100"}, "workers": 1, "text": "1 lacks gpu a100"},
        ],
        "no_handler": 1,
        "nearest": {"worker": "w2", "unmet": ["memory 16GiB < 32GiB"]},
        "text": "0 of 3 workers: 1 memory 16GiB < 32GiB, 1 os is darwin, not linux, 1 lacks gpu a100, "
        "1 has no handler for payments/charge",
    }


@pytest.mark.parametrize(
    ("need", "has", "texts"),
    [
        (needs.equal("gpu", "x"), [NOTHING, NOTHING], ["2 lack gpu"]),
        (needs.has("dataset", "x"), [NOTHING, {"dataset": "a"}], ["2 lack dataset x"]),
        (needs.equal("gpu", "x"), [{"gpu": "a"}, NOTHING, {"gpu": "a"}], ["1 lacks gpu", "2 gpu is a, not x"]),
        (needs.equal("gpu", "x"), [{"gpu": "a"}, {"gpu": "b"}], ["2 gpu is not x"]),
        (needs.one_of("gpu", "xy"), [{"gpu": "a"}, {"gpu": "b"}], ["2 gpu is not xy"]),
        (needs.one_of("gpu", ["x", "y"]), [{"gpu": "a"}, {"gpu": "b"}], ["2 gpu is not x or y"]),
        (needs.at_least("cpu", 8), [{"cpu": "2"}, {"cpu": "2"}], ["2 cpu 2 < 8"]),
        (needs.at_least("cpu", 8), [{"cpu": "2"}, {"cpu": "4"}, {"cpu": "10"}], ["2 cpu 2 to 4 < 8"]),
    ],
)
def test_explain__puts_workers_that_fail_alike_together(
    need: Need, has: list[dict[str, Any]], texts: list[str]
) -> None:
    report = said([need], *(seen(f"w{n}", one) for n, one in enumerate(has)))

    assert [one["text"] for one in report["unmet"]] == texts
    assert sum(one["workers"] for one in report["unmet"]) + report["qualified"] == len(has)


def test_explain__quantities_that_are_none_beside_some_that_are() -> None:
    report = said([needs.at_least("cpu", 8)], seen("a", {"cpu": "two"}), seen("b", {"cpu": "4"}))
    assert report["text"] == "0 of 2 workers: 2 cpu 4 < 8"
    report = said([needs.at_least("cpu", 8)], seen("a", {"cpu": "two"}), seen("b", {"cpu": "four"}))
    assert report["text"] == "0 of 2 workers: 2 cpu no quantity < 8"


@pytest.mark.parametrize(
    ("others", "because", "text"),
    [
        ([], "none", "0 of 1 worker: 1 lacks gpu"),
        ([{"free": False}], "busy", "1 of 2 workers qualifies, busy"),
        ([{"free": False}, {"free": False, "draining": True}], "busy", "2 of 3 workers qualify, all busy"),
        ([{"draining": True}], "draining", "1 of 2 workers qualifies, about to stop"),
        ([{"draining": True, "paused": True}] * 2, "draining", "2 of 3 workers qualify, all about to stop"),
        ([{"paused": True}, {"draining": True}], "paused", "2 of 3 workers qualify, paused"),
        ([{"paused": True, "free": False}], "paused", "1 of 2 workers qualifies, paused"),
        ([{"paused": True}, {"free": False}], "busy", "2 of 3 workers qualify, all busy"),
        ([{}, {"free": False}], None, "2 of 3 workers qualify, and may take it now"),
        ([{"handles": False}], "none", "0 of 2 workers: 1 lacks gpu, 1 has no handler for payments/charge"),
    ],
)
def test_explain__tells_those_that_do_not_exist_from_those_that_cannot_now(
    others: list[dict[str, Any]], because: str | None, text: str
) -> None:
    workers = [seen("a"), *(seen(f"b{n}", {"gpu": "x"}, **other) for n, other in enumerate(others))]

    report = said([needs.equal("gpu", "x")], *workers)

    assert (report["because"], report["text"]) == (because, text)
    assert (report["nearest"] is None) == (because != "none")


def test_explain__without_any_worker() -> None:
    report = said([needs.equal("gpu", "x")])

    assert (report["workers"], report["because"], report["nearest"]) == (0, "none", None)
    assert report["text"] == "no worker is alive"


def test_explain__a_type_without_needs_needs_a_handler() -> None:
    report = said([], seen("b", handles=False), seen("a", handles=False))

    assert report["text"] == "0 of 2 workers: 2 have no handler for payments/charge"
    assert report["nearest"] == {"worker": "a", "unmet": ["has no handler for payments/charge"]}


def test_explain__the_report_does_not_change_with_the_order_of_its_workers() -> None:
    workers = [seen("a", {"gpu": "a", "cpu": "1"}), seen("b", {"gpu": "b"}), seen("c", {"cpu": "2"}), seen("d")]
    wanted = [needs.equal("gpu", "x"), needs.at_least("cpu", 8)]

    assert said(wanted, *workers) == said(wanted, *reversed(workers))


def test_explain__compares_once_for_each_capability_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 routes and 50 workers take some milliseconds: counted are comparisons, since clocks are noisy."""
    made = [capabilities.of({"gpu": f"g{n % 3}", "memory": f"{n % 4 + 1}GiB", "host": str(n)}) for n in range(50)]
    wanted = [[needs.equal("gpu", f"g{n}"), needs.at_least("memory", "64GiB"), needs.has("d", "x")] for n in range(200)]
    workers = [Seen(name=str(n), capabilities=one, handles=True) for n, one in enumerate(made)]
    compared: list[WorkerNeed] = []

    def counting(need: WorkerNeed, texts: tuple[str, ...]) -> placement.Unmet | None:
        compared.append(need)
        return placement.checked(need, texts)

    monkeypatch.setattr(explanation, "checked", counting)
    hashed = count_hashing(monkeypatch)

    for one in wanted:
        explain(one, workers, job_type="a/b")

    assert len(compared) == 200 * (3 + 4 + 1)
    assert hashed[0] <= 200 * 50


def count_hashing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often capabilities were looked up."""
    counted = [0]
    plain = capabilities.Capabilities.__hash__

    def hashing(one: Capabilities) -> int:
        counted[0] += 1
        return plain(one)

    monkeypatch.setattr(capabilities.Capabilities, "__hash__", hashing)
    return counted
