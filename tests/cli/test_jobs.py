"""`brokerjobs jobs`: list, show as JSON, cancel."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

import pytest

from tests.cli.command import PROGRAM
from tests.cli.stories import much_happened

if TYPE_CHECKING:
    from tests.cli.command import Command, Done
    from tests.ledger.ledger_driver import Ledger

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
HOSTILE = "k\x1b[2J\x1b]0;owned\x07\u202e\n\t\x9b"


def test_show__as_json_is_the_whole_record_field_by_field(brokerjobs: Command, ledger: Ledger) -> None:
    job = much_happened(ledger)

    shown = brokerjobs("jobs", "show", str(job), "-o", "json").json()

    assert shown == ledger.producer.record(job)
    assert shown["schema"] == "brokerjobs.job/1"
    assert {
        *("id", "namespace", "type", "state", "waiting", "key", "submitted_by", "tags", "submitted_at", "deadline"),
        *("attempts", "result", "failure"),
    } <= shown.keys()
    first, second, third = shown["attempts"]
    for attempt in (first, second, third):
        assert {
            *("id", "number", "fencing_number", "worker", "state", "late", "closed", "report", "lease", "ack_sent_at")
        } <= attempt.keys()
        assert {"at", "as"} <= attempt["closed"].keys()
        assert {"received_at", "observed_at", "as", "verdict", "reason"} <= attempt["report"].keys()
        assert {"first_until", "last_until", "renewals"} <= attempt["lease"].keys()
        assert isinstance(attempt["fencing_number"], str)
    assert [one["state"] for one in shown["attempts"]] == ["rejected_stale", "failed", "completed"]
    assert (first["report"]["verdict"], first["report"]["reason"], first["late"]) == ("rejected", "job_succeeded", True)
    assert shown["result"] == {"receipt": "r-991"}


def test_show__as_json_has_every_time_in_utc_with_microseconds(brokerjobs: Command, ledger: Ledger) -> None:
    job = ledger.submit(deadline=900)
    ledger.worker.take(job)
    ledger.producer.cancel(job)
    waiting = ledger.submit()
    ledger.worker.snooze(ledger.worker.take(waiting), 60)

    times = [
        time
        for one in (job, waiting, much_happened(ledger))
        for time in times_in(brokerjobs("jobs", "show", str(one), "-o", "json").json())
    ]

    assert len(times) > 50
    assert [time for time in times if not RFC3339.fullmatch(time)] == []


def test_show__of_what_is_not_there_is_exit_code_6(brokerjobs: Command) -> None:
    brokerjobs("jobs", "show", str(uuid4())).fails(6, "has no job", "next: brokerjobs jobs list")
    brokerjobs("jobs", "cancel", str(uuid4()), "--reason", "r").fails(6, "has no job")


@pytest.mark.parametrize("text", ["x", "", "01890a5d", "\x1b[2J"])
def test_job_id__that_is_none_is_exit_code_2(offline: Command, text: str) -> None:
    assert "\x1b" not in offline("jobs", "show", text).fails(2, "is no job id")
    offline("jobs", "cancel", text, "--reason", "r").fails(2, "is no job id")
    offline("jobs", "list", "--before", text).fails(2, "is no job id")


def test_list__finds_by_every_filter(brokerjobs: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    keyed = brokerjobs("submit", f"{place}/work", "1", "--key", "k", "--tag", "a=1", "--tag", "b=2").ok().out.strip()
    once = str(ledger.submit("once"))
    running = str(ledger.submit())
    ledger.worker.take(UUID(running))

    def found(*args: str) -> set[str]:
        return {one["id"] for one in listed(brokerjobs, ledger, "-o", "json", *args).lines()}

    assert found() == {keyed, once, running}
    assert found("--type", "once") == {once}
    assert found("--type", f"{place}/work") == {keyed, running}
    assert found("--state", "running") == {running}
    assert found("--key", "k") == {keyed}
    assert found("--tag", "b=2") == {keyed}
    assert found("--tag", "b=2", "--tag", "a=2") == set()


def test_list__is_paged_newest_first(brokerjobs: Command, ledger: Ledger) -> None:
    jobs = [str(ledger.submit()) for _ in range(5)]

    first = listed(brokerjobs, ledger, "--limit", "2", "-o", "json")
    assert [one["id"] for one in first.lines()] == [jobs[4], jobs[3]]
    assert f"--before {jobs[3]}" in first.err
    rest = listed(brokerjobs, ledger, "--before", jobs[3], "-o", "json")
    assert [one["id"] for one in rest.lines()] == [jobs[2], jobs[1], jobs[0]]
    assert rest.err == ""


def test_list__over_one_page_of_the_ledger_is_whole(
    brokerjobs: Command, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerjobs.cli.jobs._PAGE", 2)
    jobs = [str(ledger.submit()) for _ in range(5)]

    assert [one["id"] for one in listed(brokerjobs, ledger, "-o", "json").lines()] == jobs[::-1]
    assert len(listed(brokerjobs, ledger, "-o", "json", "--limit", "3").lines()) == 3


def test_list__says_what_each_job_waits_for(brokerjobs: Command, ledger: Ledger) -> None:
    ledger.submit()
    failed = ledger.submit()
    ledger.worker.fail(ledger.worker.take(failed), {"class": "invalid", "classified": True, "message": "no"})

    last, first = listed(brokerjobs, ledger, "-o", "json").lines()

    assert first["schema"] == "brokerjobs.jobs/1"
    assert first["waiting"] == {"for": "delivery", "until": None}
    assert RFC3339.fullmatch(first["submitted_at"])
    assert (last["state"], last["waiting"], last["attempts_made"]) == ("failed", None, 1)
    assert last["failure"] == {"class": "invalid", "reason": "no"}


def test_list__piped_is_tabs_without_a_header(brokerjobs: Command, ledger: Ledger) -> None:
    job = ledger.submit()

    (line,) = listed(brokerjobs, ledger).ok().out.splitlines()

    cells = line.split("\t")
    assert cells[:3] == [str(job), f"{ledger.place.namespace}/work", "queued"]
    assert cells[3:6] == ["delivery", "", "0"]
    assert RFC3339.fullmatch(cells[6])
    assert len(cells) == 9


def test_list__of_nothing_is_said_on_stderr(brokerjobs: Command, ledger: Ledger) -> None:
    ledger.submit()
    done = brokerjobs("jobs", "list", "--namespace", "elsewhere").ok()

    assert (done.out, done.err) == ("", "no jobs found\n")


def test_hostile_text__moves_no_cursor_anywhere(brokerjobs: Command, ledger: Ledger) -> None:
    args = ("--key", HOSTILE, "--tag", f"t={HOSTILE}", "--by", HOSTILE)
    job = brokerjobs("submit", f"{ledger.place.namespace}/work", "1", *args).ok().out.strip()
    holding = ledger.worker.take(UUID(job))
    failure = {"class": "invalid", "classified": True, "type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    ledger.worker.fail(holding, failure)

    for command in (
        ("jobs", "list"),
        ("jobs", "list", "-o", "table"),
        ("jobs", "list", "-o", "json"),
        ("jobs", "show", job),
        ("jobs", "show", job, "--whole"),
        ("jobs", "show", job, "-o", "json"),
        ("jobs", "cancel", job, "--reason", HOSTILE),
        ("submit", f"{ledger.place.namespace}/work", "1", *args, "--wait"),
        ("submit", f"{ledger.place.namespace}/work", "2", *args),
    ):
        done = brokerjobs(*command)
        said = done.out + done.err
        assert [one for one in said if one in "\x1b\x07\x9b\u202e\t" and not (one == "\t" and "list" in command)] == []
        # A table is cut to its width: it has the beginning of the key.
        assert ("k\\x1b[2J" if "table" in command else "owned") in said or command[1] == "cancel"
    (line,) = listed(brokerjobs, ledger, "--key", HOSTILE).out.splitlines()
    assert line.count("\t") == 8
    shown = brokerjobs("jobs", "show", job, "-o", "json").json()
    assert shown["key"] == HOSTILE


def test_cancel__ends_a_queued_job_at_once_and_a_running_one_later(brokerjobs: Command, ledger: Ledger) -> None:
    queued, running = ledger.submit(), ledger.submit()
    holding = ledger.worker.take(running)

    assert "is cancelled" in brokerjobs("jobs", "cancel", str(queued), "--reason", "not wanted", "--by", "me").ok().out
    asked = brokerjobs("jobs", "cancel", str(running), "--reason", "not wanted", "-o", "json").json()
    assert asked == {
        "schema": "brokerjobs.cancel/1",
        "id": str(running),
        "verdict": "requested",
        "state": "running",
    }
    assert ledger.producer.record(queued)["cancel"]["reason"] == "not wanted"
    assert ledger.producer.record(queued)["cancel"]["by"] == "me"
    assert "obeyed when its attempt ends" in brokerjobs("jobs", "cancel", str(running), "--reason", "r").ok().out
    ledger.worker.complete(holding)


def test_cancel__of_a_job_in_review_says_what_it_does(brokerjobs: Command, ledger: Ledger) -> None:
    job = ledger.submit("once")
    holding = ledger.worker.take(job)
    ledger.worker.start(holding)
    ledger.lose(holding)

    said = brokerjobs("jobs", "cancel", str(job), "--reason", "r").ok().out
    assert "is in review: the cancel is recorded" in said
    assert "late success of its attempt is no longer accepted, and a retry would end it as cancelled" in said
    assert ledger.worker.complete(holding).verdict == "rejected"


def test_cancel__of_a_finished_job_is_exit_code_7(brokerjobs: Command, ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.worker.complete(ledger.worker.take(job))

    said = brokerjobs("jobs", "cancel", str(job), "--reason", "too late").fails(7, "has succeeded: cancel is not")
    assert f"next: brokerjobs jobs show {job}" in said


def test_cancel__without_a_reason_is_exit_code_2(offline: Command) -> None:
    offline("jobs", "cancel", str(uuid4())).fails(2, "--reason")
    offline("jobs", "cancel", str(uuid4()), "--reason", " ").fails(2, "--reason is empty")


@pytest.mark.parametrize("args", [("list", "-o", "json"), ("list", "-o", "table"), ("show",)], ids=" ".join)
def test_reader__that_goes_away_is_no_error(brokerjobs: Command, ledger: Ledger, args: tuple[str, ...]) -> None:
    job = ledger.submit()
    with subprocess.Popen(
        [*PROGRAM, "jobs", *args, *([str(job)] if args == ("show",) else [])],
        env=brokerjobs.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=brokerjobs.folder,
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        said = listing.stderr.read().decode()

    assert (listing.returncode, said) == (141, "")


def listed(brokerjobs: Command, ledger: Ledger, *args: str) -> Done:
    """The jobs of this test."""
    return brokerjobs("jobs", "list", "--namespace", ledger.place.namespace, *args)


def times_in(value: object) -> list[str]:
    """Every text in JSON that begins like a time."""
    if isinstance(value, dict):
        return [time for one in cast("dict[str, object]", value).values() for time in times_in(one)]
    if isinstance(value, list):
        return [time for one in cast("list[object]", value) for time in times_in(one)]
    return [value] if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value) else []
