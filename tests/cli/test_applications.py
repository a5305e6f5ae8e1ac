"""Applications that cannot be imported: the user's own error in one line, with its place, and exit code 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.cli import apps

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command

_TWICE = """
jobs.job_type('x', int, int, repeatable=True)
jobs.job_type('x', str, int, repeatable=False, queue='q')
""".lstrip()
MISTAKES = {
    "missing dependency": (
        "import nowhere_to_be_found\n",
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        1,
    ),
    "error at import": ("x = 1\n\nx / 0\n", "ZeroDivisionError: division by zero", 3),
    "syntax": ("def f(:\n    pass\n", "SyntaxError: ", 1),
    "exit": ("import sys\nsys.exit('no licence')\n", "SystemExit: no licence", 2),
    "no repeatable": (
        "from brokerjobs import App\njobs = App('ns')\n@jobs.job('x')\nasync def x(n: int) -> int: return n\n",
        "repeatable= is missing",
        3,
    ),
    "twice with other terms": (
        "from brokerjobs import App\njobs = App('ns')\n" + _TWICE,
        "job type 'x' is declared twice in this app, with other terms:\n    repeatable: True, then False\n    queue: '",
        4,
    ),
    "deep in a library": ("import json\njson.loads('{')\n", "JSONDecodeError", 2),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("command", ["worker", "setup"])
def test_broken_module__is_said_with_its_own_error_and_line(
    offline: Command, folder: Path, name: str, command: str
) -> None:
    text, words, line = MISTAKES[name]
    (folder / "broken.py").write_text(text)

    offline(command, "broken:jobs").fails(3, "importing 'broken' failed", words, f"broken.py:{line}")


def test_broken_module__shows_its_traceback_with_debug(offline: Command, folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")

    assert "ZeroDivisionError" in offline("worker", "broken:jobs", "--debug").err.split("error: ")[0]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("shop", "names no application"),
        ("shop:", "names no application"),
        (":jobs", "names no application"),
        ("./shop.py:jobs", "names no application"),
        ("shopp:jobs", "no module 'shopp'"),
        ("shop.inner:jobs", "no module 'shop.inner'"),
        ("shop:job", "has no 'job'"),
        ("shop:Order", "is of type ModelMetaclass, not a brokerjobs.App"),
    ],
)
def test_target__that_is_no_application_is_exit_code_3(offline: Command, shop: str, target: str, words: str) -> None:
    said = offline("worker", target).fails(3, words)

    if words.startswith(("has no", "is of type")):
        assert f"use {shop}" in said


def test_target__is_found_in_the_current_folder_and_below(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "deep.py").write_text("from brokerjobs import App\nclass X:\n    jobs = App('deep')\n")

    assert apps.load("inner.deep:X.jobs").namespace == "deep"


def test_target__is_taken_from_the_settings(offline: Command, folder: Path) -> None:
    (folder / "brokerjobs.toml").write_text('app = "nowhere:jobs"\n')

    offline("worker").fails(3, "no module 'nowhere'")
    offline("worker", env={"BROKERJOBS_APP": "elsewhere:jobs"}).fails(3, "no module 'elsewhere'")
    offline("worker", "flagged:jobs", env={"BROKERJOBS_APP": "elsewhere:jobs"}).fails(3, "no module 'flagged'")


def test_target__that_nobody_says_is_exit_code_3(offline: Command) -> None:
    offline("worker").fails(3, "app is not set")
