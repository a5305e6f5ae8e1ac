"""`brokerjobs dead` and `jobs adopt`: list, show, replay, discard, adopt."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.ledger.ledger_caller import TEMPORARY, asking

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger

HOSTILE = "\x1b[2J\u202e\x9b\t|"


def failed(ledger: Ledger, message: str = "account 7 is closed") -> UUID:
    """A job that failed at once."""
    holding = ledger.worker.take(ledger.submit())
    ledger.worker.fail(holding, {**TEMPORARY, "class": "invalid", "message": message})
    return holding.job_id


def group_of(ledger: Ledger) -> str:
    """The one group."""
    (group,) = ledger.operator.groups()
    return group.group_id


def states(ledger: Ledger, *jobs: UUID) -> list[str]:
    """Where jobs stand."""
    return [ledger.rows.state(job).state for job in jobs]


def test_list__shows_groups_the_latest_first(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    jobs = [failed(ledger, f"account {number} is closed") for number in range(3)]
    ledger.clock.advance(1)
    failed(ledger, "no such account")

    other, group = operator("dead", "list", "--namespace", place, "-o", "json").lines()

    assert (other["jobs"], other["failure"]["message"]) == (1, "no such account")
    assert group["schema"] == "brokerjobs.dead/1"
    assert (group["jobs"], group["type"], group["namespace"]) == (3, "work", place)
    assert group["failure"] == {
        "class": "invalid",
        "error_type": "TemporaryFailure",
        "message": "account <n> is closed",
    }
    assert group["example"] == str(jobs[-1])
    line = operator("dead", "list", "--type", f"{place}/work").ok().out.splitlines()[1].split("\t")
    assert line[:2] == [group["group"], "3"]
    assert line[4:] == [f"{place}/work", "invalid", "TemporaryFailure", "account <n> is closed", str(jobs[-1])]
    table = operator("dead", "list", "--namespace", place, "-o", "table").ok().out
    assert table.splitlines()[0].split() == ["GROUP", "JOBS", "LAST", "FIRST", "TYPE", "CLASS", "ERROR"]
    assert "--limit 2" in operator("dead", "list", "--namespace", place, "--limit", "1").err
    assert operator("dead", "list", "--namespace", "elsewhere").ok().err == "no failed jobs found\n"


def test_show__of_a_group_has_its_jobs_and_of_a_job_its_record(operator: Command, ledger: Ledger) -> None:
    first, second = failed(ledger, "account 1 is closed"), failed(ledger, "account 2 is closed")
    group = group_of(ledger)

    page = operator("dead", "show", group).ok().out
    assert "error       TemporaryFailure: account <n> is closed" in page
    assert f"{first}  " in page
    assert "attempt 1: account 2 is closed" in page
    assert f"brokerjobs dead replay --group {group} --reason …" in page
    assert "JOBS  the first 1" in operator("dead", "show", group, "--limit", "1").ok().out
    shown = operator("dead", "show", group, "-o", "json").json()
    assert [(one["id"], one["message"]) for one in shown["jobs_shown"]] == [
        (str(first), "account 1 is closed"),
        (str(second), "account 2 is closed"),
    ]
    ledger.operator.discard(second)
    page = operator("dead", "show", str(second)).ok().out
    assert f"group       {group}, of 1 jobs" in page
    assert "by ann: looked into it" in page
    assert f"\njob {second}\n" in page
    one = operator("dead", "show", str(second), "-o", "json").json()
    assert (one["id"], one["group"], one["discarded"]["by"]) == (str(second), group, "ann")


def test_show__of_what_is_not_there_is_exit_code_6(operator: Command, ledger: Ledger) -> None:
    operator("dead", "show", "0123456789ab").fails(6, "there is no group", "next: brokerjobs dead list")
    operator("dead", "show", str(uuid4())).fails(6, "has no job")
    operator("dead", "show", str(ledger.submit())).fails(6, "has not failed: it is queued")
    operator("dead", "show", "x").fails(
        2, "neither a group of `dead list`", "nor a job id", "next: brokerjobs dead list"
    )


def test_list__of_an_error_without_a_message_names_its_type_alone(operator: Command, ledger: Ledger) -> None:
    failed(ledger, "")
    place = ledger.place.namespace

    table = operator("dead", "list", "--namespace", place, "-o", "table").ok().out

    assert table.splitlines()[1].split()[-1] == "TemporaryFailure"


def test_replay__of_jobs_by_their_ids_asks_for_nothing(operator: Command, ledger: Ledger) -> None:
    first, second = failed(ledger), failed(ledger)

    done = operator("dead", "replay", str(first), str(second), "--reason", "mended", "--by", "ann", "--attempts", "1")

    assert done.ok().out == "replayed 2 jobs\n"
    assert states(ledger, first, second) == ["queued", "queued"]
    (event,) = ledger.rows.events(first, "replayed")
    assert {"by": "ann", "reason": "mended", "attempts": 1}.items() <= (event.detail or {}).items()


def test_replay__of_a_group_wants_a_yes_and_says_the_count(
    operator: Command, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [failed(ledger) for _ in range(3)]
    args = ("dead", "replay", "--group", group_of(ledger), "--reason", "mended")

    said = operator(*args).fails(7, "replay 3 jobs of", "account <n> is closed: nobody said yes, nothing was changed")
    assert "--yes" in said
    monkeypatch.setattr("brokerjobs.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("brokerjobs.cli.output.has_keyboard", lambda: True)
    assert operator(*args, stdin="n\n").code == 7
    assert states(ledger, *jobs) == ["failed"] * 3
    assert operator(*args, stdin="y\n").ok().out.endswith("replayed 3 jobs\n")
    assert states(ledger, *jobs) == ["queued"] * 3


def test_replay__of_a_group_goes_through_all_of_it_in_batches_at_its_pace(
    operator: Command, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("brokerjobs.cli.dead_work.time.sleep", slept.append)
    jobs = [failed(ledger) for _ in range(7)]

    done = operator("dead", "replay", "--group", group_of(ledger), "--reason", "r", "--yes", "--rate", "3").ok()

    assert done.out == "replayed 7 jobs\n"
    assert done.err == "replayed 3 so far\nreplayed 6 so far\n"
    assert states(ledger, *jobs) == ["queued"] * 7
    assert len(slept) == 3
    assert 0 <= slept[0] < 0.1
    assert 0.5 < slept[1] <= 1.0
    assert 1.5 < slept[2] <= 2.0


def test_replay__asked_twice_with_one_request_grants_once(operator: Command, ledger: Ledger) -> None:
    job, request = failed(ledger), str(asking().id)
    args = ("dead", "replay", str(job), "--reason", "r", "--request", request, "-o", "json")
    first = operator(*args).json()
    ledger.worker.fail(ledger.worker.take(job), {**TEMPORARY, "class": "invalid"})

    again = operator(*args).json()

    assert first == {
        "schema": "brokerjobs.replay/1",
        "request": request,
        "replayed": 1,
        "repeated": 0,
        "left": {},
    }
    assert (again["replayed"], again["repeated"]) == (1, 1)
    assert states(ledger, job) == ["failed"]


def test_replay__of_what_cannot_run_again_says_which_and_why(operator: Command, ledger: Ledger) -> None:
    good, queued = failed(ledger), ledger.submit()
    late = ledger.submit(deadline=5)
    ledger.clock.advance(5)
    ledger.coordinator.due()

    done = operator("dead", "replay", str(good), str(queued), str(late), "--reason", "r")

    assert done.out == "replayed 1 job\n"
    done.fails(
        7, "2 jobs were left alone:", f"{late}: its deadline has passed: --deadline gives it", f"{queued}: it has"
    )
    operator("dead", "replay", str(uuid4()), "--reason", "r").fails(6, "the ledger has no such job")
    operator("dead", "replay", str(late), "--reason", "r", "--deadline", "1h").ok()
    assert states(ledger, late) == ["queued"]


def test_discard__hides_jobs_and_wants_a_yes_for_a_group(operator: Command, ledger: Ledger) -> None:
    jobs = [failed(ledger) for _ in range(3)]
    group = group_of(ledger)

    assert operator("dead", "discard", str(jobs[0]), "--reason", "known").ok().out == "discarded 1 job\n"
    operator("dead", "discard", "--group", group, "--reason", "known").fails(7, "discard 2 jobs of", "nobody said yes")
    done = operator("dead", "discard", "--group", group, "--reason", "known", "--yes", "-o", "json").json()

    assert (done["schema"], done["discarded"]) == ("brokerjobs.discard/1", 2)
    assert ledger.operator.groups() == []
    assert states(ledger, *jobs) == ["failed"] * 3
    operator("dead", "discard", "--group", group, "--reason", "known", "--yes").fails(6, "there is no group")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("replay", "--reason", "r"), "name jobs by their ids, or one group"),
        (("discard", str(uuid4()), "--group", "0123456789ab", "--reason", "r"), "name jobs by their ids, or one group"),
        (("replay", "--group", "x", "--reason", "r"), "'x' is no group"),
        (("replay", "x", "--reason", "r"), "is no job id"),
        (("replay", str(uuid4())), "--reason"),
        (("replay", str(uuid4()), "--reason", "r", "--attempts", "101"), "--attempts"),
        (("replay", str(uuid4()), "--reason", "r", "--deadline", "soon"), "--deadline 'soon' is neither"),
        (("discard", str(uuid4()), "--reason", " "), "--reason is empty"),
    ],
)
def test_flags__that_cannot_be_are_exit_code_2(offline: Command, args: tuple[str, ...], says: str) -> None:
    offline("dead", *args).fails(2, says)


def test_replay__by_a_login_that_may_only_look_is_exit_code_9(brokerjobs: Command, ledger: Ledger) -> None:
    job = failed(ledger)
    env = {"BROKERJOBS_DATABASE_URL": ledger.database.reader_url}

    said = brokerjobs("dead", "replay", str(job), "--reason", "r", env=env).fails(9)

    assert "setup --grant operator=LOGIN" in said
    brokerjobs("dead", "show", str(job), env=env).ok()


def lost_and_done(ledger: Ledger) -> Holding:
    """A job that failed with its lost last attempt, whose success came afterwards."""
    ledger.declare("work", attempts=1)
    holding = ledger.worker.take(ledger.submit())
    ledger.lose(holding)
    ledger.clock.advance(30)
    ledger.coordinator.due()
    ledger.worker.complete(holding, {"receipt": "r-1"})
    return holding


@pytest.mark.parametrize("named", ["number", "id"])
def test_adopt__takes_the_late_success_and_the_record_says_who_did(
    operator: Command, ledger: Ledger, named: str
) -> None:
    holding = lost_and_done(ledger)
    attempt = "1" if named == "number" else str(holding.attempt_id)
    args = ("jobs", "adopt", str(holding.job_id), "--attempt", attempt, "--reason", "the file is there", "--by", "ann")

    said = operator(*args).ok().out

    assert said == f"job {holding.job_id} has succeeded with the result of attempt {attempt}\n"
    page = operator("jobs", "show", str(holding.job_id)).ok().out
    assert "with the result of attempt 1, which ann adopted" in page
    assert ledger.producer.record(holding.job_id)["result"] == {"receipt": "r-1"}


def test_adopt__of_anything_else_is_refused_and_says_why(operator: Command, ledger: Ledger) -> None:
    job = failed(ledger)
    args = ("--reason", "r")

    operator("jobs", "adopt", str(job), "--attempt", "1", *args).fails(7, "cannot be adopted: the attempt was not lost")
    operator("jobs", "adopt", str(job), "--attempt", "2", *args).fails(2, "has no attempt 2; it has 1")
    operator("jobs", "adopt", str(job), "--attempt", "x", *args).fails(2, "neither the number of an attempt nor its id")
    operator("jobs", "adopt", str(uuid4()), "--attempt", "1", *args).fails(6, "has no job")


def test_hostile_text__moves_no_cursor_among_the_dead(operator: Command, ledger: Ledger) -> None:
    job, _ = failed(ledger, HOSTILE), failed(ledger, HOSTILE)
    place, group = ledger.place.namespace, group_of(ledger)

    for command in (
        ("list", "--namespace", place),
        ("list", "--namespace", place, "-o", "table"),
        ("list", "--namespace", place, "-o", "json"),
        ("show", group),
        ("show", group, "-o", "json"),
        ("replay", "--group", group, "--reason", HOSTILE, "--by", HOSTILE),
        ("discard", str(job), "--reason", HOSTILE, "--by", HOSTILE),
        ("show", str(job)),
        ("show", str(job), "-o", "json"),
    ):
        done = operator("dead", *command)
        said = done.out + done.err
        assert [one for one in said if one in "\x1b\x9b\u202e" or (one == "\t" and "list" not in command)] == []
    assert "\\x1b[2J" in operator("dead", "show", str(job)).ok().out
