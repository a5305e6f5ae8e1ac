"""The pages on GPUs, datasets and accounts, followed to the letter by a reader with a worker and a coordinator."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
# What a submission must print, in the order of the page.
RESULTS = {
    "need-a-gpu": [r'"trained m1"', r'"trained m2"'],
    "need-a-dataset": [r'"evaluated m1 on imagenet"', r'"evaluated m2 on imagenet"'],
    "exclusive-account": [r'"booked 100 on a-7 under \d+"', r'"booked 1 on a-7 under \d+"'],
}


def commands(page: str) -> list[list[str]]:
    """Those of the page that are whole, without their first word."""
    lines = re.findall(r"^    brokerjobs (.+)$", page, re.MULTILINE)
    return [shlex.split(line) for line in lines if not re.search(r"\bID\b", line)]


@pytest.mark.parametrize("name", RESULTS)
def test_how_to__works_as_it_is_written(
    brokerjobs: Command, database: Database, as_owner: dict[str, str], folder: Path, name: str
) -> None:
    page = (PAGES / f"{name}.md").read_text()
    (module,) = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / module[0]).write_text(module[1])
    said: list[str] = []
    job_type = ""

    with ExitStack() as stack:
        for command in commands(page):
            match command[0]:
                case "setup":
                    brokerjobs(*command, env=as_owner).ok()
                case "worker":
                    url = ("--database-url", database.worker_url)
                    stack.enter_context(brokerjobs.running(*command, *url, said="is up"))
                    url = ("--database-url", database.coordinator_url)
                    stack.enter_context(brokerjobs.running("coordinator", *url, said="is up"))
                case _:
                    job_type = command[1]
                    said.append(brokerjobs(*command, "--timeout", "40s").ok().out.strip())

        listed = brokerjobs("jobs", "list", "--type", job_type, "-o", "json").lines()
        pages = [brokerjobs("jobs", "show", one["id"]).ok().out for one in listed]

    assert len(pages) == len(said)
    assert all(re.search(r"^  needs|^needs ", page, re.MULTILINE) and "worker had  arch=" in page for page in pages)
    assert len(said) == len(RESULTS[name])
    for out, expected in zip(said, RESULTS[name], strict=True):
        assert re.fullmatch(expected, out), out
