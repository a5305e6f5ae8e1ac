"""A job past its deadline that no coordinator has ended yet is shown as such, by every command that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from uuid import UUID

    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger

WORDS = "past its deadline, not yet recorded"


def standing(ledger: Ledger, state: str) -> UUID:
    """A job in a state, with a deadline ten seconds ahead."""
    job = ledger.submit("once", deadline=10, rung=True)
    if state != "queued":
        holding = ledger.worker.take(job)
        ledger.worker.start(holding)
        if state == "review":
            ledger.worker.fail(holding, {"class": "unsafe", "classified": True, "type": "UnknownOutcome"})
    return job


def listed(operator: Command, ledger: Ledger, form: str) -> list[str]:
    """The lines of `jobs list`."""
    wide = {"COLUMNS": "180"}
    return operator("jobs", "list", "--namespace", ledger.place.namespace, "-o", form, env=wide).ok().out.splitlines()


def shown(operator: Command, job: UUID) -> str:
    return operator("jobs", "show", str(job)).ok().out


def in_json(operator: Command, ledger: Ledger, job: UUID) -> set[bool]:
    (one,) = operator("jobs", "list", "--namespace", ledger.place.namespace, "-o", "json").lines()
    return {one["past_deadline"], operator("jobs", "show", str(job), "-o", "json").json()["past_deadline"]}


def on_the_screen(operator: Command, ledger: Ledger) -> list[tuple[str, str]]:
    """What `status` says about deadlines."""
    found = operator("status", "--namespace", ledger.place.namespace, "-o", "json").json()["lines"]
    return [(line["message"], line["next"]) for line in found if line["about"] == "deadlines"]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_past_deadline__is_said_until_it_is_recorded(operator: Command, ledger: Ledger, state: str) -> None:
    job = standing(ledger, state)
    ledger.clock.advance(9.5)
    assert WORDS not in shown(operator, job)
    assert not any(WORDS in line for form in ("table", "tsv") for line in listed(operator, ledger, form))
    assert in_json(operator, ledger, job) == {False}
    ledger.clock.advance(3)

    assert f"; {WORDS}" in next(
        line for line in shown(operator, job).splitlines() if "lease until" in line or "rung" in line
    )
    (line,) = listed(operator, ledger, "tsv")
    assert line.split("\t")[2] == f"{state} ({WORDS})"
    assert any(f"{state} ({WORDS})" in line for line in listed(operator, ledger, "table"))
    assert in_json(operator, ledger, job) == {True}
    said = "1 job is past the deadline, not yet recorded, by up to 2s"
    assert on_the_screen(operator, ledger) == [(said, f"brokerjobs jobs show {job}")]

    ledger.coordinator.due()
    ended = "failed (deadline)" if state == "queued" else "review"
    (line,) = listed(operator, ledger, "tsv")
    assert line.split("\t")[2] == ended
    assert WORDS not in shown(operator, job)
    assert on_the_screen(operator, ledger) == []


def test_past_deadline__of_a_review_is_not_said_of_its_state_which_no_time_ends(
    operator: Command, ledger: Ledger
) -> None:
    job = standing(ledger, "review")
    ledger.clock.advance(13)

    assert WORDS not in shown(operator, job)
    (line,) = listed(operator, ledger, "tsv")
    assert line.split("\t")[2] == "review"
    assert in_json(operator, ledger, job) == {True}
    assert "would run nothing: it would end the job as failed" in operator("review", "show", str(job)).ok().out
    assert len(on_the_screen(operator, ledger)) == 1
    ledger.coordinator.due()
    assert on_the_screen(operator, ledger) == []
