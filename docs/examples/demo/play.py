"""One run of the demo, from an empty folder to an empty folder; whatever happens, what was started is stopped."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.examples.demo import figures, interrupts, materials, servers
from brokerjobs.examples.demo.acts import Acts
from brokerjobs.examples.demo.cast import Cast
from brokerjobs.examples.demo.scene import Scene
from brokerjobs.examples.pictures.contracts import app
from brokerjobs.servers import finder

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Future

    from brokerjobs.examples.demo.acts import Story
    from brokerjobs.examples.demo.materials import Materials
    from brokerjobs.examples.demo.servers import Broker, Database
    from brokerjobs.examples.demo.voice import Voice

_SETTINGS_PREFIX: Final = "BROKERJOBS_"


@dataclass(frozen=True, slots=True)
class Options:
    """What the reader asked for: pictures of their own, and whether the folder is kept."""

    images: Path | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Played:
    """A run that came to its end: its figures, and by title the records of the jobs that something happened to."""

    figures: figures.Figures
    records: list[tuple[str, dict[str, Any]]]


def play(options: Options, voice: Voice) -> Played:
    """Runs the demo once.

    Raises ConfigurationError or PermissionDenied if something is missing here, ProcessEnded if it went wrong, and
    Interrupted after a signal; everything is stopped and removed by then.
    """
    with interrupts.raised(), ExitStack() as stack:
        try:
            return _play(stack, options, voice)
        finally:
            interrupts.ignore()  # what follows is bounded, and half of it would leave servers behind
            voice.tell("stopping everything", "dim")


def _play(stack: ExitStack, options: Options, voice: Voice) -> Played:
    folder = stack.enter_context(_folder(voice, keep=options.keep))
    scene = _set_up(stack, folder, options, voice)
    cast = Cast(scene)
    stack.callback(cast.end)
    stories = Acts(scene, cast, voice).run()
    with voice.waiting("the processes end in order"):
        cast.end()
    return Played(_figures(scene, voice), _records(stories))


@contextmanager
def _folder(voice: Voice, *, keep: bool) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="brokerjobs-demo-"))
    folder.chmod(0o755)  # a server that does not run as root has to enter it
    try:
        yield folder
    finally:
        if keep:
            voice.tell(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _set_up(stack: ExitStack, folder: Path, options: Options, voice: Voice) -> Scene:
    """Servers, database, queues and materials, made at the same time; what ends them is pushed onto the stack."""
    source = finder.choose_broker()
    if in_memory := source is finder.Source.MEMORY:
        voice.tell(finder.why_memory(), "bold yellow")
    # In threads, since a signal interrupts this one, and nothing that is being started may be lost by that.
    with voice.waiting(f"starting PostgreSQL and {'the in-memory broker' if in_memory else 'RabbitMQ'}"):
        pool = stack.enter_context(ThreadPoolExecutor(3))
        made = pool.submit(_materials, folder, options)
        if options.images is not None:
            made.result()  # what is wrong with the reader's folder is said before anything is started
        database = pool.submit(servers.start_database, folder, app)
        stack.callback(_end, database)
        broker = pool.submit(servers.start_broker, folder, app, source, voice.tell)
        stack.callback(_end, broker)
        scene = Scene(folder, made.result(), database.result(), broker.result())
    stack.callback(scene.close)
    _forget_settings()
    voice.tell(f"{scene.database.label} and {_named(scene.broker)}, with {_logins(scene.database)}")
    return scene


def _materials(folder: Path, options: Options) -> Materials:
    if options.images is None:
        return materials.drawn(folder)
    return materials.given(options.images, folder)


def _end(server: Future[Database] | Future[Broker]) -> None:
    """Ends what was started, also if it was still starting when the demo was interrupted."""
    if server.exception() is None:
        server.result().end()


def _forget_settings() -> None:
    """The demo's processes inherit no settings but those that it gives them."""
    for name in [name for name in os.environ if name.startswith(_SETTINGS_PREFIX)]:
        del os.environ[name]


def _named(broker: Broker) -> str:
    return "the in-memory broker" if broker.label == "memory" else broker.label


def _logins(database: Database) -> str:
    if database.logins:
        return "a ledger and a login without table rights for each role"
    return "a ledger; its login may not create roles, so all processes share it"


def _figures(scene: Scene, voice: Voice) -> figures.Figures:
    counted = figures.count(scene)
    return figures.Figures(
        broker=scene.broker.label,
        database=scene.database.label,
        jobs=counted.jobs,
        succeeded=counted.succeeded,
        attempts=counted.attempts,
        rejected_stale=counted.rejected_stale,
        max_effects_per_job=scene.database.most_rows_of_a_job(),
        handler_runs=scene.handler_runs(),
        seconds=round(voice.seconds, 1),
    )


def _records(stories: list[Story]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{story.star.name}: {story.title}", story.star.record()) for story in stories]
