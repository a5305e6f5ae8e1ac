"""`brokerjobs demo`: an example application whose workers are killed and paused while you watch."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brokerjobs.cli import output
from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from brokerjobs.examples.demo.play import Played

# Of the extra; PostgreSQL's binaries may also be installed ones, which is found out when it is started.
_NEEDED: Final = ("PIL",)
# Of an event's detail; `brokerjobs jobs show` has all of it.
_SAID: Final = ("number", "worker", "lease_until", "by", "waiting", "as", "reason", "redelivered", "late")


def demo(
    *,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Your own pictures, which are only read. [drawn ones]"),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the working folder with its logs and files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line of stdout is one JSON object.")] = False,
) -> None:
    """Watch jobs survive workers that are killed and paused; about twenty seconds, and nothing is left behind.

    PostgreSQL and RabbitMQ are private servers on free loopback ports, or those that BROKERJOBS_DEMO_DATABASE_URL and
    BROKERJOBS_DEMO_BROKER_URL name; where RabbitMQ cannot be had, a broker in memory takes its place.  Two workers
    make thumbnails and a report; both are killed, one is paused, and the records of what happened are shown.
    """
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        message = f"the demo needs {', '.join(missing)}, which is not installed: pip install 'brokerjobs[demo]'"
        raise ConfigurationError(message)
    from brokerjobs.examples.demo import interrupts, play, voice  # noqa: PLC0415  # slow, and needs the extra

    try:
        played = play.play(play.Options(images=images, keep=keep), voice.Voice())
    except interrupts.Interrupted as ended:
        output.say(f"{ended}; everything that was started is stopped")
        raise typer.Exit(ended.exit_code) from ended
    _show(played)
    if as_json:
        output.put_json({"schema": "brokerjobs.demo/1", **asdict(played.figures)})
    played.figures.check()


def _show(played: Played) -> None:
    """The records of the jobs that something happened to, and the run in plain words."""
    from rich.text import Text  # noqa: PLC0415  # slow

    from brokerjobs.cli import job_page, job_words  # noqa: PLC0415  # ditto
    from brokerjobs.examples.demo.figures import summary  # noqa: PLC0415  # needs the extra

    console = output.console()
    page = job_page.Page(console)
    now = datetime.now(UTC)
    for title, record in played.records:
        page.heading(title)
        job_page.show_timeline(record, now, console)
        times = job_words.Times(job_words.parsed(record["submitted_at"]), now)
        for event in record["events"]:
            detail: dict[str, Any] = event["detail"] or {}
            said = {key: value for key, value in detail.items() if key in _SAID}
            words = f"{event['kind']:<18}  {'  '.join(job_words.details(said, times))}"
            page.hanging(f"  {times.show(event['at'])}  ", Text(output.escaped(words)))
    page.heading("What you saw")
    for line in summary(played.figures):
        page.hanging("- ", Text(output.escaped(line)))
