"""`brokerjobs review`: list, show, resolve."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from tests.ledger.ledger_caller import asking, holding_of

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger

HOSTILE = "\x1b[2J\u202e\x9b\t|"


def in_review(ledger: Ledger, message: str = "the psp did not answer") -> Holding:
    """A job whose handler said that its outcome is unknown."""
    holding = ledger.worker.take(ledger.submit("once"))
    ledger.worker.start(holding)
    failure = {"class": "unsafe", "classified": True, "type": "UnknownOutcome", "message": message}
    ledger.worker.fail(holding, failure)
    return holding


def version_of(ledger: Ledger, job: UUID) -> str:
    """The version to decide on."""
    return str(ledger.operator.review(job)["version"])


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there."""
    monkeypatch.setattr("brokerjobs.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("brokerjobs.cli.output.has_keyboard", lambda: True)


def test_list__shows_open_reviews_oldest_first(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    first = in_review(ledger).job_id
    ledger.clock.advance(1)
    second = in_review(ledger).job_id
    ledger.producer.cancel(second)

    rows = operator("review", "list", "--namespace", place, "-o", "json").lines()
    assert [row["job"] for row in rows] == [str(first), str(second)]
    assert rows[0]["schema"] == "brokerjobs.review/1"
    assert rows[0]["version"] == version_of(ledger, first)
    line = operator("review", "list", "--type", f"{place}/once").ok().out.splitlines()[1].split("\t")
    assert line[1:3] == [str(second), f"{place}/once"]
    assert line[5:] == ["cancel", "the handler said that its outcome is unknown"]
    table = operator("review", "list", "--namespace", place, "-o", "table").ok().out
    assert table.splitlines()[0].split() == ["JOB", "TYPE", "OPEN", "FOR", "NOTED", "CAUSE"]
    page = operator("review", "list", "--namespace", place, "--limit", "1")
    assert f"--after {rows[0]['id']}" in page.err
    rest = operator("review", "list", "--namespace", place, "--after", rows[0]["id"], "-o", "json").lines()
    assert [row["job"] for row in rest] == [str(second)]
    assert operator("review", "list", "--namespace", "elsewhere").ok().err == "no open reviews found\n"


def test_show__says_what_is_known_and_what_is_not_and_how_to_decide(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    ledger.producer.cancel(job, "not wanted any more")

    page = operator("review", "show", str(job)).ok().out

    assert "known       attempt 1 on w-" in page
    assert re.search(r"claimed at [\d:.]+,\s+start recorded at [\d:.]+;\s+its handler\s+failed\s+\(unsafe\)", page)
    assert "error       UnknownOutcome the psp did not answer" in page
    assert "not known   whether what attempt 1 did outside has happened" in page
    assert "cancel      asked for by tester" in page
    assert "retry       would run nothing: it would end the job as cancelled" in page
    assert (
        f"review resolve {job} --version {version_of(ledger, job)} --reason … --retry    # ends the job as cancelled"
        in page
    )
    assert f"\njob {job}\n" in page  # the record below
    review = operator("review", "show", str(job), "-o", "json").json()
    assert operator("review", "show", review["id"], "-o", "json").json() == review


def test_show__of_what_is_not_there_is_exit_code_6(operator: Command, ledger: Ledger) -> None:
    for one in (ledger.submit(), uuid4()):
        operator("review", "show", str(one)).fails(6, "is no review, and no job", "next: brokerjobs review list")
        operator("review", "resolve", str(one), "--retry", "--reason", "r", "--version", "1").fails(6)
    operator("review", "show", "x").fails(2, "is no job id")


def test_resolve__happened_takes_reference_and_result(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    args = ("--happened", "--reference", "psp 4711", "--reason", "the psp shows it", "--by", "ann")

    done = operator(
        "review", "resolve", str(job), *args, "--result", '{"n": 1.50}', "--version", version_of(ledger, job)
    ).ok()

    assert done.out == f"job {job} is succeeded\n"
    assert "checked by no model; --app MODULE:APP" in done.err
    record = ledger.producer.record(job)
    assert (record["state"], record["result"]) == ("succeeded", {"n": 1.5})
    page = operator("jobs", "show", str(job)).ok().out
    assert ", as ann decided: reference psp 4711" in page
    assert "decision    happened, its result checked by no model: the psp shows it" in page


def test_resolve__checks_the_result_by_the_model_of_its_type(ready: Command, operator: Command, ledger: Ledger) -> None:
    job = ready("submit", "--app", "shop:jobs", "add", '{"cents": 1}').ok().out.strip()
    claimed = ledger.worker.claim(UUID(job), types=["add"], route=ledger.place.route("sums"))
    ledger.worker.fail(
        holding_of(claimed), {"class": "unsafe", "classified": True, "type": "U", "message": "nobody knows"}
    )
    version = version_of(ledger, UUID(job))
    args = ("review", "resolve", job, "--app", "shop:jobs", "--happened", "--reference", "r", "--reason", "seen")

    operator(*args, "--version", version, "--result", '"two"').fails(7, "result of job type 'add'")
    said = operator(*args, "--version", version, "--result", "2", "-o", "json").json()

    assert (said["schema"], said["state"], said["result_checked"]) == ("brokerjobs.resolve/1", "succeeded", True)


def test_resolve__without_a_version_and_without_a_terminal_is_refused(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id

    said = operator("review", "resolve", str(job), "--retry", "--reason", "r").fails(7, "nobody said yes")

    assert f"brokerjobs review show {job}, then say --version {version_of(ledger, job)}" in said
    assert ledger.rows.state(job).state == "review"


@pytest.mark.usefixtures("at_a_terminal")
def test_resolve__at_a_terminal_shows_the_review_and_wants_a_yes(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    ledger.producer.cancel(job)
    args = ("review", "resolve", str(job), "--retry", "--reason", "r")

    refused = operator(*args, stdin="n\n")
    assert refused.code == 7
    assert "not known" in refused.out
    assert "by --retry, which ends the job as cancelled? [y/N]" in refused.err
    assert ledger.rows.state(job).state == "review"
    done = operator(*args, stdin="y\n").ok()
    assert done.out.endswith(f"job {job} is cancelled\n")
    assert "it is not run again: a cancel was noted\n" in done.err


def test_resolve__is_refused_if_the_record_moved_and_says_by_whom(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    version = version_of(ledger, job)
    ledger.producer.cancel(job)
    args = ("review", "resolve", str(job), "--give-up", "--reason", "r", "--version", version)

    said = operator(*args).fails(7, "the record has moved since it was read")
    assert f"it is at version {version_of(ledger, job)} now" in said
    ledger.operator.resolve(job, "happened", reference="psp 4711")
    operator(*args).fails(7, "ann decided 'happened' at ", "reference psp 4711: looked into it; nothing was changed")


def test_resolve__asked_twice_with_one_request_acts_once(operator: Command, ledger: Ledger) -> None:
    job, request = in_review(ledger).job_id, str(asking().id)
    args = ("review", "resolve", str(job), "--retry", "--reason", "r", "--version", version_of(ledger, job))

    assert operator(*args, "--request", request).ok().out == f"job {job} is queued\n"
    assert operator(*args, "--request", request).ok().out == f"job {job} is queued (already, by this request)\n"
    operator(*args[:3], "--give-up", *args[4:], "--request", request).fails(
        7, "--request was used by", "something else"
    )
    assert len(ledger.rows.events(job, "review_decided")) == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--reason", "r"), "none of --happened, --retry and --give-up"),
        (("--reason", "r", "--retry", "--give-up"), "more than one of"),
        (("--retry",), "--reason"),
        (("--retry", "--reason", " "), "--reason is empty"),
        (("--happened", "--reason", "r"), "--happened needs --reference"),
        (("--retry", "--reason", "r", "--reference", "x"), "belong to --happened"),
        (("--retry", "--reason", "r", "--request", "x"), "is no UUID"),
    ],
)
def test_resolve__with_flags_that_cannot_be_is_exit_code_2(offline: Command, args: tuple[str, ...], says: str) -> None:
    offline("review", "resolve", str(uuid4()), *args).fails(2, says)


def test_resolve__with_a_result_that_is_no_json_is_exit_code_2(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    args = ("review", "resolve", str(job), "--happened", "--reference", "r", "--reason", "r", "--version", "1")

    operator(*args, "--result", "{").fails(2, "the result is not JSON")
    operator(*args, "--result", "NaN").fails(2, "the result is not JSON: NaN is no number")
    assert ledger.rows.state(job).state == "review"


def test_resolve__by_a_login_that_may_only_look_is_exit_code_9(brokerjobs: Command, ledger: Ledger) -> None:
    job = in_review(ledger).job_id
    env = {"BROKERJOBS_DATABASE_URL": ledger.database.reader_url}

    said = brokerjobs("review", "resolve", str(job), "--retry", "--reason", "r", "--version", "1", env=env).fails(9)

    assert "setup --grant operator=LOGIN" in said
    brokerjobs("review", "show", str(job), env=env).ok()


def test_hostile_text__moves_no_cursor_in_reviews(operator: Command, ledger: Ledger) -> None:
    job = in_review(ledger, HOSTILE).job_id
    ledger.producer.cancel(job, HOSTILE)
    place = ledger.place.namespace
    args = ("--happened", "--reference", HOSTILE, "--reason", HOSTILE, "--by", HOSTILE)

    for command in (
        ("list", "--namespace", place),
        ("list", "--namespace", place, "-o", "table"),
        ("list", "--namespace", place, "-o", "json"),
        ("show", str(job)),
        ("show", str(job), "-o", "json"),
        ("resolve", str(job), *args, "--version", version_of(ledger, job)),
        ("resolve", str(job), *args, "--version", "1"),
        ("show", str(job)),
        ("show", str(job), "-o", "json"),
    ):
        done = operator("review", *command)
        said = done.out + done.err
        assert [one for one in said if one in "\x1b\x9b\u202e" or (one == "\t" and "list" not in command)] == []
    assert "\\x1b[2J" in operator("jobs", "show", str(job)).ok().out
