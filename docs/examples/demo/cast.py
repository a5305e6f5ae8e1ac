"""The processes of the demo: two workers, a coordinator and a producer, each as a reader would start it."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from brokerjobs.errors import BrokerjobsError
from brokerjobs.examples.pictures import checkpoints, journal
from brokerjobs.servers.processes import Program, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from brokerjobs.examples.demo.scene import Scene

WORKERS: Final = ("worker-a", "worker-b")
_APP: Final = "brokerjobs.examples.pictures.worker:app"
# -P: nothing of the folder that this happens to run in is imported.
_COMMAND: Final = (sys.executable, "-P", "-m", "brokerjobs.cli")
_PRODUCER: Final = (sys.executable, "-P", "-m", "brokerjobs.examples.pictures.producer")
_LOG_LINES: Final = 12


class ProcessEnded(BrokerjobsError):
    """A process of the demo ended by itself, or something that it should do did not happen."""


@dataclass(slots=True)
class Cast:
    """Starts processes, and knows those that run."""

    scene: Scene
    _running: dict[str, ServerProcess] = field(default_factory=dict[str, ServerProcess])
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def start_coordinator(self) -> None:
        """Starts the coordinator, with its own login."""
        self._start("coordinator", [*_COMMAND, "coordinator", "--name", "coordinator"], "coordinator")

    def start_worker(self, name: str) -> int:
        """Starts a worker under a name that may have been used before; its process id."""
        return self._start(name, [*_COMMAND, "worker", _APP, "--name", name], "worker")

    def start_producer(self) -> None:
        """Starts the producer, which ends by itself."""
        scene = self.scene
        arguments: list[str | Path] = [
            *_PRODUCER,
            scene.materials.pictures,
            scene.materials.sales,
            scene.folder / "output",
        ]
        self._start("producer", arguments, "producer")

    def name_of(self, pid: int) -> str:
        """Which worker is the process."""
        return next(name for name, process in self._running.items() if process.pid == pid)

    def pid_of(self, name: str) -> int:
        """Which process is the worker."""
        return self._running[name].pid

    def kill(self, names: Iterable[str]) -> None:
        """SIGKILL: the processes end at once and say nothing to anybody."""
        for name in names:
            self._running[name].kill()
            del self._running[name]

    def stop(self, name: str) -> None:
        """SIGSTOP: the process does nothing more, and knows nothing of it."""
        self._running[name].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT: the process goes on where it was."""
        self._running[name].signal(signal.SIGCONT)

    def producer_is_done(self) -> bool:
        """Whether the producer has ended; raises ProcessEnded if it failed."""
        self.check()
        return "producer" not in self._running

    def check(self) -> None:
        """Raises ProcessEnded if a process has ended that should run."""
        for name, process in list(self._running.items()):
            if process.running:
                continue
            if name != "producer" or process.exit_code != 0:
                raise self.failed(f"{name} ended by itself with exit code {process.exit_code}", name)
            process.stop()
            del self._running[name]

    def failed(self, problem: str, *names: str) -> ProcessEnded:
        """An error with the last lines of the processes' logs."""
        parts = [f"the demo cannot go on: {problem}"]
        for name in names or (*WORKERS, "coordinator", "producer"):
            log = self.scene.log_of(name)
            if log.exists():
                lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
                parts += [f"  {name}: {line}" for line in lines]
        return ProcessEnded("\n".join(parts))

    def end(self) -> None:
        """Ends all processes in order, the workers drained; those that do not end within ten seconds are killed."""
        self._starter.shutdown()
        processes, self._running = list(self._running.values()), {}
        with ThreadPoolExecutor(len(processes) or 1) as pool:
            for ended in [pool.submit(process.stop, 10.0) for process in processes]:
                ended.result()

    def _start(self, name: str, arguments: list[str | Path], role: str) -> int:
        scene = self.scene
        environment = {
            "BROKERJOBS_CONFIG": str(scene.settings),
            "BROKERJOBS_DATABASE_URL": scene.database.urls[role],
            "BROKERJOBS_BROKER_URL": scene.broker.url,
            journal.VARIABLE: str(scene.journal),
            checkpoints.VARIABLE: str(scene.checkpoints),
        }
        program = Program(name, arguments, scene.log_of(name), environment)

        def start() -> int:
            process = self._running[name] = ServerProcess(program)
            return process.pid

        # A signal interrupts the main thread alone, so no process is started and not known.
        return self._starter.submit(start).result()
