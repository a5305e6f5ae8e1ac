"""The command `brokerjobs`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from brokerjobs.cli import coordinator, demo, failures, jobs, output, setup, submit, version, worker

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEBUG = "--debug"


class Program(TyperGroup):
    """The command group, with our errors and exit codes instead of tracebacks."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command line and exit; `--debug` may stand anywhere on it."""
        given = list(sys.argv[1:] if args is None else args)
        extra |= {"prog_name": "brokerjobs", "standalone_mode": False}
        debug, given = _without_debug(given)
        output.never_fail_on_a_character()
        try:
            _check_text(given)
            done = super().main(given, *more, **extra)
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
    epilog="Every setting is a flag, a BROKERJOBS_… variable, or a key of brokerjobs.toml; the first of them counts.",
    no_args_is_help=True,
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


app.command("setup", short_help="Bring ledger and broker up to date.")(setup.setup)
app.command("worker", short_help="Run the jobs of an application.")(worker.worker)
app.command("coordinator", short_help="Run the services of time and failure.")(coordinator.coordinator)
app.command("submit", short_help="Submit one job.")(submit.submit)
app.add_typer(jobs.app, name="jobs")
app.command("demo", short_help="Watch jobs survive workers that are killed and paused.")(demo.demo)
app.command("version")(version.version)


def run() -> None:
    """Run the command line of this process."""
    app()


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
    return " ".join(["brokerjobs", *words[: 2 if words[:1] == ["jobs"] else 1]])


def _wants_json(args: Sequence[str]) -> bool:
    """Whether errors are to be JSON; known before, and also if, the line cannot be parsed."""
    pairs = zip(args, [*args[1:], ""], strict=True)
    return any(
        (name in {"-o", "--output"} and value == "json") or name in {"-ojson", "--output=json"} for name, value in pairs
    )


def _drop_stdout() -> None:
    """Whoever read our stdout has gone: let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
