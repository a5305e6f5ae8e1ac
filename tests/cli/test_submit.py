"""`brokerjobs submit`: what is accepted, what is refused at the door, and waiting for the result."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from brokerjobs.job_type import PAYLOAD_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

    from brokerjobs.ledger.calls import Holding
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def test_submit__prints_the_id_and_says_that_nobody_checked_the_payload(ready: Command, namespace: str) -> None:
    done = ready("submit", f"{namespace}/add", '{"cents": "many"}').ok()

    assert done.out == f"{UUID(done.out.strip())}\n"
    assert "not checked by a model" in done.err
    assert record(ready, done.out.strip())["payload_checked"] is False


def test_submit__with_the_application_checks_the_payload_and_fills_it_in(
    ready: Command, shop: str, namespace: str
) -> None:
    done = ready("submit", "add", '{"cents": 7}', "--app", shop).ok()

    shown = record(ready, done.out.strip())
    assert "not checked" not in done.err
    assert shown["namespace"] == namespace
    assert shown["payload_checked"] is True
    assert shown["payload"] == {"cents": 7, "note": ""}


def test_submit__keeps_everything_it_is_told(ready: Command, namespace: str) -> None:
    deadline = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=5)
    made = ready(
        *("submit", "add", "[1]", "--namespace", namespace, "--key", "k-1", "--tag", "order=991", "--tag", "at=a=b"),
        *("--at", "2h", "--deadline", deadline.isoformat(), "--by", "orders-api", "-o", "json"),
    ).json()

    shown = record(ready, made["id"])
    assert made["verdict"] == "created"
    assert made["schema"] == "brokerjobs.submitted/1"
    assert (shown["key"], shown["tags"], shown["submitted_by"]) == ("k-1", {"order": "991", "at": "a=b"}, "orders-api")
    assert datetime.fromisoformat(shown["deadline"]) == deadline
    assert shown["waiting"]["for"] == "schedule"
    ahead = datetime.fromisoformat(shown["not_before"]) - datetime.fromisoformat(shown["submitted_at"])
    assert ahead == timedelta(hours=2)


def test_submit__by_a_lane_and_with_needs(ready: Command, namespace: str) -> None:
    job = ready(
        *("submit", f"{namespace}/add", '{"cents": 7}', "--priority", "high", "--need", "gpu=a100|h100"),
        *("--need", "memory>=32GiB", "--need", "exclusive:account:{cents}", "--need", "limit:smtp:10"),
    ).ok()

    shown = record(ready, job.out.strip())
    assert (shown["priority"], shown["route"]) == ("high", f"{namespace}.q.sums:high")
    assert [one["kind"] for one in shown["added_needs"]] == ["at_least", "exclusive", "limit", "one_of"]
    assert shown["resources"] == [{"name": "account:7", "limit": 1}, {"name": "smtp", "limit": 10}]
    page = ready("jobs", "show", job.out.strip()).ok().out
    assert "added: memory>=32GiB, exclusive:account:{cents}, limit:smtp:10, gpu=a100|h100" in " ".join(page.split())
    assert "resources   account:7, smtp (one of 10 places)\n" in page
    assert "priority    high\n" in page


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--need", "gpu"), 2, "--need 'gpu' is no need; write gpu=a100, gpu=a100|h100, memory>=32GiB"),
        (("--need", "memory>=much"), 7, "needs.at_least('memory', 'much'): 'much' is not a quantity"),
        (("--need", "exclusive:{b}"), 7, "asks for the payload's field b, which is missing"),
    ],
)
def test_submit__refuses_what_cannot_be_needed(
    ready: Command, namespace: str, flags: tuple[str, ...], code: int, says: str
) -> None:
    ready("submit", f"{namespace}/add", "{}", *flags).fails(code, says)


def test_submit__by_no_such_lane(ready: Command, namespace: str) -> None:
    done = ready("submit", f"{namespace}/add", "{}", "--priority", "urgent")

    assert done.code == 2
    assert "'urgent' is not one of" in " ".join(done.err.replace("│", " ").split())


def test_submit__reads_stdin_and_files(ready: Command, folder: Path, namespace: str) -> None:
    (folder / "payload.json").write_bytes(b'\xef\xbb\xbf{"from": "file \xc3\xa9"}\n')

    one = ready("submit", f"{namespace}/add", "@payload.json").ok().out.strip()
    other = ready("submit", f"{namespace}/add", "-", stdin='{"from": "stdin"}\n').ok().out.strip()

    assert record(ready, one)["payload"] == {"from": "file é"}
    assert record(ready, other)["payload"] == {"from": "stdin"}


def test_submit__keeps_every_digit(ready: Command, namespace: str) -> None:
    payload = '{"pi": 3.14159265358979323846264338327950288, "big": 123456789012345678901234567890}'

    job = ready("submit", f"{namespace}/add", payload).ok().out.strip()

    text = ready("jobs", "show", job, "-o", "json").ok().out
    assert "3.14159265358979323846264338327950288" in text
    assert "123456789012345678901234567890" in text


def test_submit__again_with_the_same_key_is_the_same_job(ready: Command, namespace: str) -> None:
    submit = ("submit", f"{namespace}/add", "1", "--key", "k", "--by", "first")
    job = ready(*submit).ok().out

    again = ready(*submit).ok()
    assert again.out == job
    assert "'first' submitted" in again.err
    assert ready(*submit, "-o", "json").json()["verdict"] == "existing"

    other = ready("submit", f"{namespace}/add", "2", "--key", "k", "--by", "second")
    said = other.fails(7, "first used by 'first'", "now by 'second'")
    assert f"next: brokerjobs jobs show {job.strip()}" in said


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("{", "not JSON: Expecting property name"),
        ("", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("NaN", "NaN is no number in JSON"),
        ("[-Infinity]", "-Infinity is no number in JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"items": [{}, {"cents": ' + "9" * 100_000 + "}]}", "at items[1].cents: the integer has 100000 digits, over"),
        ("[-" + "9" * 5000 + "]", "cannot be taken at [0]: the integer has 5000 digits"),
        ("9" * 5000, "cannot be taken at top level: the integer has 5000 digits"),
        ('{"a": [1e-400000]}', "at a[0]: the number 1e-400000 has more than 16383 decimal places; send a text"),
        ('{"a": 1.5E-5000000000000}', "more than 16383 decimal places"),
        ("[1e400]", "cannot be taken at [0]: the number 1e400 is larger than a float can be; send a text"),
        ('{"a": "\\ud800"}', "cannot be taken at a: the text has a lone surrogate"),
        ('{"a": {"\\udc00": 1}}', "cannot be taken at a: the text has a lone surrogate"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ('{"a":' * 100_000, "nested deeper than 64 levels"),
        ("@missing.json", "cannot be read"),
        ("@.", "cannot be read"),
    ],
)
def test_payload__that_is_no_json_is_exit_code_2(offline: Command, payload: str, words: str) -> None:
    args = ("submit", "ns/add", payload, "--database-url", "postgresql://127.0.0.1:1/nowhere")

    offline(*args).fails(2, words)


def test_payload__that_is_not_utf8_is_exit_code_2(offline: Command, folder: Path) -> None:
    (folder / "latin.json").write_bytes(b'"\xe9"')
    away = ("--database-url", "postgresql://127.0.0.1:1/nowhere")

    offline("submit", "ns/add", "@latin.json", *away).fails(2, "not UTF-8")
    offline("submit", "ns/add", "-", *away, stdin=b'"\xe9"').fails(2, "not UTF-8")
    offline("submit", "ns/add", "-", *away, stdin=b" " * (8 * 1024 * 1024 + 1)).fails(2, "over 8388608 bytes")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ('{"cents": "many"}', "at cents"),
        ("{}", "at cents"),
        ('{"cents": 1, "note": "\\u0000"}', "at note"),
        (json.dumps({"cents": 1, "note": "x" * PAYLOAD_LIMIT}), "over the limit"),
    ],
)
def test_payload__that_its_model_refuses_is_exit_code_7(
    ready: Command, shop: str, namespace: str, payload: str, words: str
) -> None:
    ready("submit", "add", "-", "--app", shop, stdin=payload).fails(7, words)
    assert ready("jobs", "list", "--namespace", namespace).ok().out == ""


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ('["a\\u0000"]', "[0]"),
        ("[" * 70 + "]" * 70, "[0][0][0][0][0][0][0][0]…: it is nested deeper than 64 levels"),
        (json.dumps("x" * PAYLOAD_LIMIT), "over the limit"),
    ],
)
def test_payload__that_cannot_be_stored_is_exit_code_7_without_a_model(
    ready: Command, namespace: str, payload: str, words: str
) -> None:
    ready("submit", f"{namespace}/add", "-", stdin=payload).fails(7, words)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["{ns}/nothing", "1"], 7, "does not know job type 'nothing'"),
        (["nowhere/add", "1"], 7, "of namespace 'nowhere'"),
        (["add", "1"], 2, "the namespace of job type 'add' is not known"),
        (["{ns}/add", "1", "--namespace", "other"], 2, "two namespaces"),
        (["Add!", "1", "--namespace", "{ns}"], 3, "job type 'Add!'"),
        (["N/add", "1"], 3, "namespace 'N'"),
        (["{ns}/add", "1", "--tag", "novalue"], 2, "KEY=VALUE"),
        (["{ns}/add", "1", "--key", ""], 7, "key=''"),
        (["{ns}/add", "1", "--at", "tomorrow"], 2, "--at 'tomorrow'"),
        (["{ns}/add", "1", "--at", "2030-01-01T00:00:00"], 2, "no time zone"),
        (["{ns}/add", "1", "--deadline", "2020-01-01T00:00:00Z"], 7, "deadline has passed"),
        (["{ns}/add", "1", "--deadline", "2200-01-01T00:00:00+02:00"], 7, "more than a year ahead"),
        (["{ns}/add", "1", "--wait", "--timeout", "soon"], 2, "--timeout 'soon' is not a duration"),
        (["{ns}/add", "1", "--by", ""], 2, "--by"),
        (["{ns}/add", "1", "--by", "x" * 256], 2, "--by"),
    ],
)
def test_submit__of_what_cannot_be_is_said(
    ready: Command, namespace: str, args: list[str], code: int, words: str
) -> None:
    ready("submit", *(one.format(ns=namespace) for one in args)).fails(code, words)


def test_unknown_type__names_the_next_command(ready: Command, shop: str, namespace: str) -> None:
    said = ready("submit", f"{namespace}/nothing", "1").fails(7)
    assert "next: brokerjobs setup module:app" in said

    ready("submit", "nothing", "1", "--app", shop).fails(2, "it declares: add, refuse, unclear")
    ready("submit", "other/add", "1", "--app", shop).fails(2, f"of namespace {namespace!r}")
    ready("submit", "other/add", "1", env={"BROKERJOBS_APP": shop}).fails(7, "of namespace 'other'")


def test_wait__ends_with_124_in_time_and_the_job_goes_on(brokerjobs: Command, ledger: Ledger) -> None:
    submit = ("submit", f"{ledger.place.namespace}/work", "1", "--wait", "--timeout", "100ms")

    text, as_json = brokerjobs(*submit), brokerjobs(*submit, "-o", "json")

    assert (text.code, as_json.code) == (124, 124)
    assert "was still queued (delivery) after 0:00:00.1" in text.err
    made, said = json.loads(as_json.out), json.loads(as_json.err)
    assert said["code"] == "result_timeout"
    assert said["hint"] == f"brokerjobs jobs show {made['id']}"
    assert record(brokerjobs, made["id"])["state"] == "queued"


def test_wait__prints_the_result_with_every_digit(brokerjobs: Command, ledger: Ledger) -> None:
    submit, holding = played(brokerjobs, ledger)
    ledger.worker.sql(
        "select brokerjobs.complete_v1(%s, %s, %s, %s::jsonb)",
        holding.job_id,
        holding.attempt_id,
        holding.fencing_number,
        '{"sum": 3.14159265358979323846264338327950288}',
    )

    text, as_json = brokerjobs(*submit, "--wait").ok(), brokerjobs(*submit, "--wait", "-o", "json").ok()

    assert text.out == '{"sum": 3.14159265358979323846264338327950288}\n'
    assert '"result": {"sum": 3.14159265358979323846264338327950288}}' in as_json.out
    assert as_json.json()["state"] == "succeeded"


def test_wait__for_a_failed_job_is_exit_code_8_with_every_attempt(brokerjobs: Command, ledger: Ledger) -> None:
    submit, holding = played(brokerjobs, ledger)
    ledger.worker.fail(
        holding, {"class": "invalid", "classified": True, "type": "NoOrder", "message": "no\x1b[2J order"}
    )

    said = brokerjobs(*submit, "--wait")

    assert said.code == 8
    assert "failed (invalid)" in said.err
    assert f"attempt 1 on {ledger.worker.process.name}: NoOrder: no\\x1b[2J order" in said.err
    assert f"next: brokerjobs jobs show {holding.job_id}" in said.err
    as_json = brokerjobs(*submit, "--wait", "-o", "json")
    assert json.loads(as_json.out)["failure"]["class"] == "invalid"


def test_wait__for_a_cancelled_job_and_one_in_review_is_exit_code_8(brokerjobs: Command, ledger: Ledger) -> None:
    other = ("submit", f"{ledger.place.namespace}/work", "1", "--key", "other")
    job = brokerjobs(*other).ok().out.strip()
    ledger.producer.cancel(UUID(job), "changed our mind")
    cancelled = brokerjobs(*other, "--wait")
    assert cancelled.code == 8
    assert "was cancelled: changed our mind" in cancelled.err

    submit, holding = played(brokerjobs, ledger, "once")
    ledger.worker.start(holding)
    ledger.worker.fail(holding, {"class": "unsafe", "classified": False, "type": "Lost", "message": "?"})
    in_review = brokerjobs(*submit, "--wait")
    assert in_review.code == 8
    assert "is in review" in in_review.err
    assert in_review.err.count("brokerjobs review show ") == 1
    assert f"next: brokerjobs review show {holding.job_id}" in in_review.err

    ledger.operator.resolve(holding.job_id, "happened", reference="psp 4711")
    decided = brokerjobs(*submit, "--wait")
    assert (decided.code, decided.out) == (8, "")
    assert "was decided by ann, without a result: it happened (psp 4711)" in decided.err
    assert brokerjobs(*submit, "--wait", "-o", "json").out.count('"state": "succeeded"') == 1


def played(brokerjobs: Command, ledger: Ledger, kind: str = "work") -> tuple[tuple[str, ...], Holding]:
    """A job whose submission can be repeated by its key, claimed by a worker that the test plays."""
    submit = ("submit", f"{ledger.place.namespace}/{kind}", "1", "--key", "k")
    return submit, ledger.worker.take(UUID(brokerjobs(*submit).ok().out.strip()))


def record(brokerjobs: Command, job: str) -> dict[str, Any]:
    """What was recorded about a job."""
    shown: dict[str, Any] = brokerjobs("jobs", "show", job, "-o", "json").json()
    return shown
