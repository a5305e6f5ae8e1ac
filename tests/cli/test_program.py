"""The command as a whole: help, usage, JSON errors, --debug, pipes, and what is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from brokerjobs.cli import failures
from brokerjobs.errors import TopologyMismatch
from tests.cli.command import PROGRAM

if TYPE_CHECKING:
    from tests.cli.command import Command

COMMANDS = (
    ("setup",),
    ("worker",),
    ("coordinator",),
    ("submit",),
    ("jobs",),
    ("jobs", "list"),
    ("jobs", "show"),
    ("jobs", "cancel"),
    ("demo",),
    ("version",),
)


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help__is_said_by_every_command(offline: Command, command: tuple[str, ...]) -> None:
    done = offline(*command, "--help")

    assert done.code == 0
    assert done.out.startswith(f"Usage: {' '.join(('brokerjobs', *command))}")
    assert done.err == ""


def test_bare_command__is_help_and_a_bare_group_is_usage(offline: Command) -> None:
    assert offline().ok().out == offline("--help").ok().out
    offline("jobs").fails(2, "Missing command", "next: brokerjobs jobs --help")


def test_help__lists_every_command_with_the_line_of_its_own_help(offline: Command) -> None:
    listed = offline("--help").ok().out.split("Commands:\n")[1]

    for command in {command[0] for command in COMMANDS}:
        assert f"\n  {command} " in f"\n{listed}"


def test_help__imports_nothing_heavy() -> None:
    heavy = [
        "psycopg",
        "aiormq",
        "aio_pika",
        "pydantic",
        "pydantic_settings",
        "rich",
        "opentelemetry",
        "asyncio",
        "email",
    ]
    code = (
        "import sys\nfrom brokerjobs.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"sys.exit(','.join(name for name in {heavy!r} if name in sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "Usage: brokerjobs " in done.stdout
    assert done.stderr.strip() == ""


def test_version__is_said_and_given_as_json(offline: Command) -> None:
    assert offline("version").ok().out.startswith("brokerjobs 0.")
    assert offline("version", "-o", "json").json()["schema"] == "brokerjobs.version/1"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["jops"], "No such command 'jops'. Did you mean 'jobs'?"),
        (["jobs", "lits"], "Did you mean 'list'"),
        (["jobs", "show"], "Missing argument"),
        (["jobs", "show", "a", "b"], "unexpected extra argument"),
        (["worker", "--concurency", "3"], "--concurrency"),
        (["worker", "--concurrency", "many"], "--concurrency"),
        (["jobs", "list", "--state", "asleep"], "'--state': 'asleep' is not one of"),
        (["jobs", "cancel", "01890a5d-ac96-774b-bcce-b302099a8057"], "--reason"),
    ],
)
def test_usage__is_exit_code_2(offline: Command, args: list[str], words: str) -> None:
    offline(*args).fails(2, words, "--help")


def test_errors__are_one_json_object_if_asked_for(offline: Command) -> None:
    for args in (["jobs", "show", "x", "-o", "json"], ["jobs", "show", "-o", "json"], ["version", "-ojson", "--oh"]):
        done = offline(*args)

        assert done.code == 2
        assert done.out == ""
        said = json.loads(done.err)
        assert set(said) == {"code", "message", "hint"}
        assert all(said.values()), said


def test_debug__shows_the_traceback_wherever_it_stands(offline: Command) -> None:
    for args in (["--debug", "jobs", "show", "x"], ["jobs", "show", "x", "--debug"]):
        done = offline(*args)

        assert done.code == 2
        assert "Traceback" in done.err
        assert done.err.splitlines()[-2].startswith("error: ")


def test_debug__after_two_dashes_is_an_argument(offline: Command) -> None:
    done = offline("jobs", "show", "--", "--debug")

    done.fails(2, "'--debug' is no job id")


def test_unexpected_errors__are_said_with_the_way_to_their_traceback(
    offline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        message = "postgresql://u:secret@h/ is broken"
        raise RuntimeError(message)

    monkeypatch.setattr("brokerjobs.cli.options.settings_of", broken)

    said = offline("jobs", "list").fails(1, "unexpected RuntimeError", "--debug")
    assert "secret" not in said
    assert "secret" not in offline("jobs", "list", "--debug").err


def test_arguments__that_are_not_text_are_usage_errors(offline: Command) -> None:
    done = subprocess.run(
        [*PROGRAM, "jobs", "list", "--key", b"\xff\xfe"],
        cwd=offline.folder,
        capture_output=True,
        check=False,
        env={**os.environ, "BROKERJOBS_DATABASE_URL": "postgresql://localhost/none"},
    )

    assert done.returncode == 2, done
    assert b"Traceback" not in done.stderr
    assert b"UTF-8" in done.stderr


def test_group_of_errors__is_said_whole_with_the_code_of_its_first() -> None:
    errors = [
        TopologyMismatch(queue=name, argument="x-max-length", existing=1, wanted=2) for name in ("a.q.x", "a.q.y")
    ]

    complaint = failures.complaint_of(ExceptionGroup("differs", [ExceptionGroup("inner", errors)]))

    assert complaint.code is failures.ExitCode.SCHEMA
    assert "a.q.x" in complaint.message
    assert "a.q.y" in complaint.message
    assert complaint.hint == "brokerjobs setup module:app --recreate a.q.x"
