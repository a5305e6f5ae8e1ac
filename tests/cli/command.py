"""Runs `brokerjobs` as people do: in this process by typer's runner, or as a process of its own."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from brokerjobs.cli.main import app
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

PROGRAM = (sys.executable, "-m", "brokerjobs.cli")
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def ok(self) -> Done:
        """Itself, if all went well."""
        assert self.code == 0, self
        return self

    def json(self) -> Any:
        """The one object on stdout."""
        (line,) = self.ok().out.splitlines()
        return json.loads(line)

    def lines(self) -> list[Any]:
        """The objects on stdout, one a line."""
        return [json.loads(line) for line in self.ok().out.splitlines()]

    def fails(self, code: int, *words: str) -> str:
        """Its stderr, if it failed with `code` for a mistake: said in words, without a traceback."""
        assert self.code == code, self
        assert "Traceback" not in self.out + self.err, self
        assert self.err.startswith("error: "), self
        assert "\nnext: " in self.err, self
        for word in words:
            assert word in self.err, self
        return self.err


@dataclass
class Command:
    """Runs commands in one folder with one environment."""

    folder: Path
    env: dict[str, str]
    ended: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def __call__(self, *args: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Done:
        """Run it in this process."""
        with _logging_as_before():
            result = CliRunner().invoke(app, list(args), input=stdin, env={**self.env, **(env or {})})
        return Done(result.exit_code, result.stdout, result.stderr)

    def process(self, *args: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Done:
        """Run it as a process of its own, to its end."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*PROGRAM, *args],
            cwd=self.folder,
            env=self.environment(env),
            input=given,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def running(self, *args: str, said: str, env: Mapping[str, str] | None = None) -> Generator[Running]:
        """Run it as a process of its own beside the test, from when it has `said` something on stderr."""
        log = self.folder / f"stderr-{len(self.ended)}"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [*PROGRAM, *args], cwd=self.folder, env=self.environment(env), stderr=stderr, text=True
            )
        self.ended.append(process)
        running = Running(process, log)
        try:
            eventually_sync(lambda: said in running.log() or process.poll() is not None, _PATIENCE_SECONDS)
            assert said in running.log(), running.log()
            yield running
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BROKERJOBS_")}
        return {**kept, "PYTHONPATH": str(Path(__file__).parents[2]), **self.env, **(env or {})}


@contextmanager
def _logging_as_before() -> Generator[None]:
    """Takes away what a command set up: handlers that write to the stderr of a runner, which is closed at its end."""
    root, loop = logging.getLogger(), logging.getLogger("asyncio")
    handlers, level, loops = list(root.handlers), root.level, loop.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        loop.setLevel(loops)


@dataclass(frozen=True)
class Running:
    """A command that runs beside the test."""

    process: subprocess.Popen[str]
    stderr: Path

    def log(self) -> str:
        """What it has said so far."""
        return self.stderr.read_text()

    def terminated(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE_SECONDS)
