"""Each alert has its page, each page its alert, and every command on it is one of ours."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer.main

from brokerjobs.cli.main import app
from tests.config.expressions import ROOT
from tests.config.test_prometheus import ALERTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER: Final = ROOT / "docs" / "runbooks"
PAGES: Final = {page.stem: page for page in sorted(FOLDER.glob("*.md")) if page.stem != "README"}
_QUOTED: Final = re.compile(r"`(brokerjobs\s[^`]+)`")


def commands(page: Path) -> Iterator[str]:
    """Every command of ours that a page shows, on a line of its own or within a sentence."""
    text = page.read_text()
    yield from re.findall(r"^    (brokerjobs .+)$", text, re.MULTILINE)
    yield from (" ".join(found.split()) for found in _QUOTED.findall(text))


def refused(command: str) -> str | None:
    """What our command line says against a command; None if it would take it. Nothing is run."""
    part: Any = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while hasattr(part, "commands"):
        if not words or words[0] not in part.commands:
            return f"there is no command {' '.join(words[:1])!r}"
        part = part.commands[words.pop(0)]
    try:
        part.make_context(part.name, words)
    except Exception as error:  # typer keeps a click of its own, whose errors have no public name
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        return str(said())
    return None


def test_pages__are_those_of_the_alerts() -> None:
    linked = {name: alert["annotations"]["runbook"] for name, alert in ALERTS.items()}

    assert linked == {
        name: f"docs/runbooks/{re.sub('(?<!^)(?=[A-Z])', '-', name.removeprefix('Brokerjobs')).lower()}.md"
        for name in ALERTS
    }
    assert {f"docs/runbooks/{name}.md" for name in PAGES} == set(linked.values())


def test_list_of_pages__has_every_alert_with_its_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(([\w-]+)\.md\) \| (\w+) \| .+ \|$", (FOLDER / "README.md").read_text(), re.MULTILINE
    )

    assert rows == [
        (
            name,
            one["annotations"]["runbook"].removeprefix("docs/runbooks/").removesuffix(".md"),
            one["labels"]["severity"],
        )
        for name, one in ALERTS.items()
    ]
    assert "](runbooks/README.md)" in (ROOT / "docs" / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_page__begins_with_commands_and_says_what_it_means_what_to_do_and_whom_to_wake(page: Path) -> None:
    title, empty, *rest = page.read_text().splitlines()
    (name,) = (name for name, one in ALERTS.items() if one["annotations"]["runbook"].endswith(f"/{page.name}"))

    assert (title, empty) == (f"# {name}", "")
    first = rest[: rest.index("")]
    assert len(first) >= 2
    assert all(line.startswith("    brokerjobs ") for line in first)
    headings = [line for line in rest if line.startswith("#")]
    assert headings == ["## What it means", "## What to do", "## Whom to wake"]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_page__shows_commands_that_the_command_line_takes(page: Path) -> None:
    shown = list(commands(page))

    assert {command: problem for command in shown if (problem := refused(command))} == {}


@pytest.mark.parametrize(
    "command",
    [
        "brokerjobs job list",
        "brokerjobs jobs list --sate queued",
        "brokerjobs jobs show",
        "brokerjobs jobs adopt ID --reason TEXT",
        "brokerjobs status now",
    ],
)
def test_command__that_is_none_of_ours_is_refused(command: str) -> None:
    assert refused(command) is not None
