"""`brokerjobs jobs show` for people: header, bars, attempts, events; at 80 and 120 columns, on a terminal and piped."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from brokerjobs.cli import bars, job_page, job_words
from tests.cli.command import PROGRAM
from tests.cli.stories import much_happened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def page_of(ledger: Ledger, job: UUID, *, width: int = 120, whole: bool = False) -> str:
    """The page as it is piped."""
    out = io.StringIO()
    job_page.show(ledger.producer.record(job), ledger.clock.now, Console(file=out, width=width), whole=whole)
    return out.getvalue()


def facts_of(page: str) -> dict[str, str]:
    """The labels and values of a page's header."""
    header = page.split("\n\n", maxsplit=1)[0].splitlines()[1:]
    return {line[:12].strip(): line[12:] for line in header}


@pytest.mark.parametrize("width", [80, 120])
def test_page__fits_its_width_and_ends_no_line_with_blanks(ledger: Ledger, width: int) -> None:
    page = page_of(ledger, much_happened(ledger), width=width)

    lines = page.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert max(map(cell_len, lines)) > width - 10
    assert [line for line in lines if line != line.rstrip()] == []


def test_page__tells_what_happened(ledger: Ledger) -> None:
    job = much_happened(ledger)

    page = page_of(ledger, job)

    facts = facts_of(page)
    assert page.startswith(f"job {job}\n")
    assert facts["type"] == f"{ledger.place.namespace}/work"
    assert facts["state"].startswith("succeeded at ")
    assert facts["state"].endswith(" with the result of attempt 3")
    assert "by tester (login brokerjobs_test_producer)" in facts["submitted"]
    assert facts["key"] == "no key"
    assert facts["charged"] == "3 of 5 attempts, 0 given back"
    assert facts["result"] == '{"receipt": "r-991"}'
    first, second, third = page.split("ATTEMPT ")[1:]
    record = ledger.producer.record(job)
    for section, attempt in zip((first, second, third), record["attempts"], strict=True):
        assert f"fencing number {attempt['fencing_number']}\n" in section
        assert f"worker      {attempt['worker']}\n" in section
    assert first.startswith("1  rejected_stale")
    assert "as timed_out by" in first
    assert "completed: late, rejected (job_succeeded); the job was then succeeded; worker's clock" in first
    assert "(+1.5s)" in first
    assert 'its result  {"receipt": "too late"}' in first
    assert "failure     temporary ConnectError: the account service at accounts.example:443" in second
    assert "worker's clock" in second.split("started")[1].split("\n")[0]
    assert "completed: accepted" in third
    assert "not known to be sent" in third
    kinds = [line[15:].split()[-5:] for line in page.split("EVENTS\n")[1].splitlines() if "#1" in line]
    assert len(kinds) == 3


def test_page__draws_each_attempt_on_one_axis(ledger: Ledger) -> None:
    page = page_of(ledger, much_happened(ledger), width=100)

    rows = [line for line in page.splitlines() if line.startswith("#")]
    lost, failed, good = (row.split(" ", maxsplit=2)[2] for row in rows)
    assert lost.rstrip().endswith("⚑")
    assert lost.count("✗") == 1
    assert set(lost[lost.index("✗") + 1 : lost.index("⚑")]) == {"·"}
    assert failed.rstrip().endswith("━✗")
    assert good.rstrip().endswith("✓")
    assert (
        lost.index("✗") <= failed.index("━") < failed.index("✗") < good.index("━") < good.index("✓") < lost.index("⚑")
    )
    legend = page.split("#3")[1].splitlines()[1:3]
    assert "━ lease held" in legend[0]
    assert "⚑ late result rejected" in "".join(legend)
    assert "given back" not in "".join(legend)


def test_page__whole_shows_payload_and_tracebacks(ledger: Ledger) -> None:
    job = much_happened(ledger)

    assert "ConnectError: refused" not in page_of(ledger, job)
    whole = page_of(ledger, job, whole=True)
    assert 'File "pay.py", line 3, in pay' in whole
    assert facts_of(whole)["payload"] == "{}"
    assert facts_of(page_of(ledger, job))["payload"].startswith("sha256 ")


def test_queued_job__says_what_it_waits_for_and_why(ledger: Ledger) -> None:
    fresh = ledger.submit()
    assert "has not yet confirmed its doorbell" in facts_of(page_of(ledger, fresh))["waits for"]
    rung = ledger.submit(rung=True)
    assert "not yet claimed by a worker" in facts_of(page_of(ledger, rung))["waits for"]

    later = ledger.submit(not_before=timedelta(hours=1))
    assert "(in 1h), as it was submitted" in facts_of(page_of(ledger, later))["waits for"]

    failed = ledger.submit()
    ledger.worker.fail(
        ledger.worker.take(failed),
        {"class": "temporary", "classified": True, "type": "ConnectError", "message": "refused", "retry_after": 90},
    )
    words = facts_of(page_of(ledger, failed))["waits for"]
    assert "(in 1m30s), because attempt 1 ended with ConnectError: refused" in words

    lost = ledger.submit()
    ledger.lose(ledger.worker.take(lost))
    assert "because attempt 1 ended with lease expired" in facts_of(page_of(ledger, lost))["waits for"]

    snoozed = ledger.submit()
    ledger.worker.snooze(ledger.worker.take(snoozed), 60)
    assert "its time until" in facts_of(page_of(ledger, snoozed))["waits for"]
    assert "because attempt 1 ended with snooze" in facts_of(page_of(ledger, snoozed))["waits for"]

    unhandled = ledger.submit()
    ledger.worker.claim(unhandled, types=["other"])
    words = facts_of(page_of(ledger, unhandled))["waits for"]
    assert f"{ledger.worker.process.name} has no handler for work (asked 1 time)" in words


def test_last_lost_attempt__says_that_nothing_more_is_tried(ledger: Ledger) -> None:
    ledger.declare("single", attempts=1)
    job = ledger.submit("single")
    answer = ledger.worker.claim(job, types=["single"])
    assert answer.verdict == "granted"
    ledger.clock.set(ledger.rows.state(job).lease_until or ledger.clock.now)
    ledger.coordinator.expire()

    words = facts_of(page_of(ledger, job))["waits for"]

    assert words.startswith("nothing more: its last attempt was lost, and without its result the job fails until")


def test_open_attempt__shows_the_lease_ahead_and_the_cancel(ledger: Ledger) -> None:
    job = ledger.submit(deadline=900)
    ledger.worker.take(job)
    ledger.producer.cancel(job, "changed our mind")
    ledger.clock.advance(12)

    page = page_of(ledger, job, width=100)

    facts = facts_of(page)
    assert f"running: attempt 1 on {ledger.worker.process.name}, lease until" in facts["state"]
    assert "(in 18s)" in facts["state"]
    assert "; a cancel is" in facts["state"]
    assert facts["cancel"].startswith("asked for by tester at ")
    assert facts["cancel"].endswith(": changed our mind")
    assert "(in 14m48s)" in facts["deadline"]
    (row,) = [line for line in page.splitlines() if line.startswith("#")]
    drawn = row.split(" ", maxsplit=2)[2]
    assert 0.35 < drawn.count("━") / len(drawn) < 0.45
    assert drawn.endswith("┄")
    assert "reported    nothing yet" in page


def test_job_in_review__shows_its_review(ledger: Ledger) -> None:
    job = ledger.submit("once")
    holding = ledger.worker.take(job)
    ledger.worker.start(holding)
    ledger.lose(holding)

    page = page_of(ledger, job)

    assert facts_of(page)["state"].startswith(f"in review, its outcome is unknown (brokerjobs review show {job}): ")
    assert "\nREVIEW  " in page
    assert "closed      not yet" in page
    ledger.producer.cancel(job)
    said = "in review, its outcome is unknown; a cancel is recorded, so a late success is not accepted ("
    assert facts_of(page_of(ledger, job))["state"].startswith(said)


def test_failed_job__shows_its_class_and_reason(ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.worker.fail(ledger.worker.take(job), {"class": "invalid", "classified": True, "message": "no such order"})

    assert facts_of(page_of(ledger, job))["state"].endswith(" (invalid): no such order")


def test_report_of_no_place__is_shown_as_evidence(ledger: Ledger) -> None:
    job = ledger.submit()
    holding = ledger.worker.take(job)
    ledger.worker.complete(holding, 1)
    ledger.worker.complete(holding, 2)

    page = page_of(ledger, job)

    assert "OTHER REPORTS  kept as evidence, without effect" in page
    assert f"completed by attempt {holding.attempt_id} (fencing number {holding.fencing_number})" in page


def test_page__is_plain_when_piped_and_ascii_where_it_must_be(brokerjobs: Command, ledger: Ledger) -> None:
    job = str(much_happened(ledger))

    piped = brokerjobs.process("jobs", "show", job).ok().out
    ascii_only = brokerjobs.process("jobs", "show", job, env={"PYTHONIOENCODING": "ascii"}).ok().out

    assert "\x1b" not in piped
    assert "━" in piped
    assert max(map(cell_len, piped.splitlines())) in range(100, 121)
    assert "=x...." in ascii_only
    assert ascii_only.isascii()


@pytest.mark.parametrize("columns", [80, 120])
def test_page__on_a_terminal_has_its_width_and_colours_unless_unwanted(
    brokerjobs: Command, ledger: Ledger, columns: int
) -> None:
    job = str(much_happened(ledger))
    plain = on_terminal(brokerjobs, columns, "jobs", "show", job, env={"NO_COLOR": "1"})
    coloured = on_terminal(brokerjobs, columns, "jobs", "show", job, env={"NO_COLOR": ""})

    assert "\x1b[3" not in plain
    assert "\x1b[32m" in coloured
    lines = plain.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "").splitlines()
    assert max(map(cell_len, lines)) in range(columns - 10, columns + 1)


def test_list__on_a_terminal_is_a_table_that_never_cuts_ids(brokerjobs: Command, ledger: Ledger) -> None:
    jobs = [str(ledger.submit()) for _ in range(2)]

    for columns in (80, 140):
        said = on_terminal(
            brokerjobs, columns, "jobs", "list", "--namespace", ledger.place.namespace, env={"NO_COLOR": "1"}
        )
        header, *rows = [line for line in said.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() if line]
        assert header.split()[:4] == ["ID", "TYPE", "STATE", "AGE"]
        assert ("SUBMITTED BY" in header) == (columns == 140)
        assert [row.split()[0] for row in rows] == jobs[::-1]
        assert all("queued: delivery" in row for row in rows)
        assert max(map(len, rows)) <= columns


def test_list__of_a_long_type_cuts_the_type_and_not_the_age(brokerjobs: Command, ledger: Ledger) -> None:
    long = "a.job.type.with.a.name.that.fills.half.of.the.terminal"
    ledger.declare(long)
    job = str(ledger.submit(long))

    said = on_terminal(brokerjobs, 80, "jobs", "list", "--namespace", ledger.place.namespace, env={"NO_COLOR": "1"})
    (row,) = [line for line in said.splitlines() if job in line]

    assert "…" in row
    assert re.search(r" -?\d+(\.\d+)?[smhd] *$", row)  # the ledger's clock is the test's own


def test_axis__of_one_moment_is_drawn() -> None:
    now = datetime.now(UTC)
    attempt = attempt_at(now, closed=now)

    assert bars.bar(attempt, bars.axis_of([attempt], now, 10), now, bars.LINES) == "✓"


def test_bar__past_its_lease_shows_that_nobody_holds_it() -> None:
    now = datetime.now(UTC)
    attempt = attempt_at(now - timedelta(seconds=40), closed=None)

    drawn = bars.bar(attempt, bars.axis_of([attempt], now, 40), now, bars.LINES)

    assert drawn.count("━") == pytest.approx(30, abs=1)
    assert drawn.count("·") == pytest.approx(10, abs=1)
    assert drawn.startswith("━")


def test_times__show_the_date_only_where_it_differs() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    times = job_words.Times(noon, noon)

    assert times.show("2026-01-31T23:59:59.999999Z") == "23:59:59.999"
    assert times.show("2026-02-01T00:00:00.000000Z") == "2026-02-01 00:00:00.000"
    assert times.show("2026-02-01T00:30:00+01:00") == "23:30:00.000"
    assert times.ahead("2026-01-31T12:00:30Z") == "12:00:30.000 (in 30s)"
    assert times.ahead("2026-01-31T11:58:00Z") == "11:58:00.000 (2m ago)"
    assert times.beside("2026-01-31T12:00:00.0004Z", "2026-01-31T12:00:00Z") == ""
    assert times.beside("2026-01-31T11:59:59Z", "2026-01-31T12:00:00Z") == "worker's clock 11:59:59.000 (-1.0s)"


def attempt_at(claimed: datetime, closed: datetime | None) -> Mapping[str, Any]:
    """An attempt with a lease of 30 s."""
    return {
        "claimed_at": claimed,
        "closed": None if closed is None else {"at": closed, "as": "completed"},
        "report": None,
        "late": False,
        "lease": {"last_until": claimed + timedelta(seconds=30)},
    }


def on_terminal(brokerjobs: Command, columns: int, *args: str, env: Mapping[str, str]) -> str:
    """What a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    told = {**brokerjobs.environment(env), "COLUMNS": str(columns), "TERM": "xterm-256color", "LINES": "50"}
    with subprocess.Popen([*PROGRAM, *args], env=told, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        said = b""
        while chunk := _read(ours):
            said += chunk
        os.close(ours)
        assert process.wait() == 0
    return said.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says that the other end is closed in this way
        return b""


def test_bar__of_an_expired_attempt_holds_no_lease_after_its_end() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: int) -> str:
        return (start + timedelta(seconds=seconds)).isoformat()

    attempt = {
        "claimed_at": at(0),
        "lease": {"last_until": at(4)},
        "closed": {"at": at(9), "as": "timed_out"},
        "report": None,
        "late": False,
    }
    axis = bars.Axis(start, start + timedelta(seconds=9), 10)

    assert bars.bar(attempt, axis, start, bars.PLAIN) == "=====....x"
