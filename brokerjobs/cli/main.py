"""The command `brokerjobs`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from brokerjobs.cli import failures, output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DEBUG: Final = "--debug"
# Each command is a module of this folder, imported when it is asked for: typer reads every flag of what is added to it,
# which took more than half of the time of --help.
_COMMANDS: Final = {
    "setup": "Bring ledger and broker up to date.",
    "worker": "Run the jobs of an application.",
    "coordinator": "Run the services that ring, retry, expire and clean up.",
    "submit": "Submit one job.",
    "jobs": "List jobs, show what became of one, explain why it waits, cancel one, adopt a late success.",
    "review": "List and decide jobs whose outcome is unknown.",
    "dead": "List failed jobs in groups, let them run again, or discard them.",
    "types": "List job types, pause one, resume it.",
    "queues": "List queues, pause one, resume it.",
    "artifacts": "List large outputs of jobs, fetch one, acknowledge a copy of it.",
    "lease": "Advise on leases, renewals and time limits, from recorded attempts.",
    "workers": "List workers: what they have, what they run, when they were heard of.",
    "quarantine": "List and export messages that were not ours to run.",
    "status": "Say in ten lines what is wrong, the worst first.",
    "fence": "Let another PostgreSQL database refuse what superseded attempts write.",
    "doctor": "Say what is wrong with ledger, broker and processes.",
    "demo": "Watch jobs survive workers that are killed and paused.",
    "version": "Say which brokerjobs this is.",
}

_NOUNS: Final = (
    ["jobs"],
    ["review"],
    ["dead"],
    ["types"],
    ["queues"],
    ["artifacts"],
    ["quarantine"],
    ["fence"],
    ["lease"],
)  # commands that have commands


class OnDemand(MutableMapping[str, Any]):
    """All commands by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class Program(TyperGroup):
    """The command group: commands made on demand, and our errors and exit codes instead of tracebacks."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = OnDemand()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the signature of what it replaces
        """The names of all commands."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # ditto
        """Write the list of commands without making them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command line and exit; `--debug` may stand anywhere on it."""
        given = list(sys.argv[1:] if args is None else args)
        extra |= {"prog_name": "brokerjobs", "standalone_mode": False}
        debug, given = _without_debug(given)
        output.never_fail_on_a_character()
        try:
            _check_text(given)
            done = super().main(given or ["--help"], *more, **extra)
        except output.ReaderGone:
            _drop_stdout()
            sys.exit(failures.ExitCode.BROKEN_PIPE)
        except typer.Abort:
            sys.exit(failures.ExitCode.UNEXPECTED)
        except Exception as error:  # noqa: BLE001  # the outermost frame: whatever comes here is said, not thrown
            sys.exit(failures.report(error, _command_of(given), as_json=_wants_json(given), debug=debug))
        sys.exit(done if isinstance(done, int) else 0)


app = typer.Typer(
    name="brokerjobs",
    cls=Program,
    help="Jobs delivered by RabbitMQ, whose attempts are recorded and fenced in PostgreSQL.",
    epilog=(
        "Every setting is a BROKERJOBS_… variable or a key of brokerjobs.toml; some are flags. A flag counts before a "
        "variable, a variable before the file. config/brokerjobs.toml lists every setting."
    ),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback()
def options(
    *,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error; may stand anywhere.")] = False,
) -> None:
    """Jobs delivered by RabbitMQ, whose attempts are recorded and fenced in PostgreSQL."""
    del debug  # taken from the line before typer reads it


def run() -> None:
    """Run the command line of this process."""
    app()


def _made(name: str) -> Any:
    """The command that a module of this folder has: a group `app`, or a function of its name; KeyError if none has."""
    if name not in _COMMANDS:
        raise KeyError(name)
    module = import_module(f"brokerjobs.cli.{name}")
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(getattr(module, name))
    return typer.main.get_command(alone)


def _without_debug(args: list[str]) -> tuple[bool, list[str]]:
    end = args.index("--") if "--" in args else len(args)
    kept = [one for one in args[:end] if one != _DEBUG]
    return len(kept) < end, kept + args[end:]


def _check_text(args: Sequence[str]) -> None:
    """Raise UsageError for an argument that is not UTF-8: neither server could be told it."""
    for one in args:
        if not output.is_text(one):
            message = f"the argument {output.escaped(one)} is not UTF-8"
            raise failures.UsageError(message, hint="brokerjobs --help")


def _command_of(args: Sequence[str]) -> str:
    """The command of a line, as far as it is words."""
    words = list(itertools.takewhile(lambda one: not one.startswith("-"), args))
    return " ".join(["brokerjobs", *words[: 2 if words[:1] in _NOUNS else 1]])


def _wants_json(args: Sequence[str]) -> bool:
    """Whether errors are to be JSON; known before, and also if, the line cannot be parsed."""
    pairs = itertools.pairwise([*args, ""])
    return any(
        (name in {"-o", "--output"} and value == "json") or name in {"-ojson", "--output=json"} for name, value in pairs
    )


def _drop_stdout() -> None:
    """The reader of our stdout has gone: let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
