"""`make bench`: what one worker and one producer process do a second, how late jobs start, what memory is held.

Contestants of one table run in interleaved rounds on the same servers; PostgreSQL runs with fsync and
synchronous_commit on, or the run ends.  Prints tables and writes build/bench.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from brokerjobs.ledger import schema
from brokerjobs.servers.postgres import PrivatePostgres
from brokerjobs.servers.rabbitmq import PrivateRabbitMQ
from tests.bench import artifacts, draining, latency, memory, submitting, telemetry
from tests.bench.stage import DEFAULT, PREFETCH, ROOT, TUNED, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

# What other shapes of a worker would cost (decision 0002): the same worker, with the handler's body elsewhere.
CANDIDATES = (
    replace(TUNED, label="one loop"),
    replace(TUNED, label="two loops", handler="loop"),
    replace(TUNED, label="two processes", handler="process"),
)


@dataclass(frozen=True)
class Sizes:
    """How much of each is done; 0 leaves a part out."""

    rounds: int
    jobs: int
    submits: int
    latency_seconds: int
    memory_jobs: int
    candidates: int
    artifact_mib: int
    telemetry: int


@contextmanager
def servers() -> Generator[Stage]:
    """Private servers with a ledger."""
    with tempfile.TemporaryDirectory(prefix="brokerjobs-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = PrivatePostgres.start(folder / "postgres", {"shared_buffers": "256MB"}, fsync=True)
        rabbitmq = PrivateRabbitMQ.start(folder / "rabbitmq")
        try:
            schema.apply(postgres.url)
            yield Stage(postgres.url, rabbitmq.url)
        finally:
            rabbitmq.stop()
            postgres.stop()


def settings_of(stage: Stage) -> dict[str, str]:
    """The settings that make figures comparable; ends the run if commits are not made safe."""
    with psycopg.connect(stage.database_url) as connection:
        rows = connection.execute(
            "select name, setting from pg_settings where name in ('fsync', 'synchronous_commit', 'server_version')"
        ).fetchall()
    settings: dict[str, str] = dict(rows)
    for name in ("fsync", "synchronous_commit"):
        if settings[name] != "on":
            sys.exit(f"{name} is {settings[name]}: figures without safe commits would say nothing")
    return settings


async def rounds(count: int, parts: dict[str, Callable[[], Awaitable[float]]]) -> dict[str, list[float]]:
    """Runs the parts in turn, `count` times; answers each one's figures."""
    figures: dict[str, list[float]] = {label: [] for label in parts}
    for number in range(1, count + 1):
        for label, part in parts.items():
            figures[label].append(await part())
        _say(f"round {number} of {count}: " + ", ".join(f"{label} {one[-1]:.0f}/s" for label, one in figures.items()))
    return figures


async def run(stage: Stage, sizes: Sizes) -> dict[str, Any]:
    """Runs all parts and answers the figures."""
    figures: dict[str, Any] = {
        "settings": settings_of(stage),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "sizes": asdict(sizes),
        "shapes": {shape.label: asdict(shape) for shape in (TUNED, DEFAULT, memory.SHAPE)},
        "bare_prefetch": PREFETCH,
    }
    drained = await rounds(
        sizes.rounds,
        {
            "bare": lambda: asyncio.to_thread(draining.bare, stage.broker_url, sizes.jobs, fast_loop=False),
            "bare on uvloop": lambda: asyncio.to_thread(draining.bare, stage.broker_url, sizes.jobs, fast_loop=True),
            "tuned": lambda: draining.ours(stage, TUNED, sizes.jobs),
            "default": lambda: draining.ours(stage, DEFAULT, sizes.jobs),
        },
    )
    medians = {label: statistics.median(rates) for label, rates in drained.items()}
    figures |= {
        "drain_per_s": round(medians["tuned"]),
        "drain_default_per_s": round(medians["default"]),
        "bare_aio_pika_per_s": round(medians["bare"]),
        "bare_aio_pika_uvloop_per_s": round(medians["bare on uvloop"]),
        "drain_ratio": round(medians["tuned"] / medians["bare"], 3),
        "drain_default_ratio": round(medians["default"] / medians["bare"], 3),
        "drain_ratio_uvloop": round(medians["tuned"] / medians["bare on uvloop"], 3),
        "rounds": {label: [round(rate) for rate in rates] for label, rates in drained.items()},
    }
    if sizes.submits:
        submitted = await rounds(
            sizes.rounds,
            {
                "submit": lambda: submitting.singles(stage, sizes.submits),
                "submit_many": lambda: submitting.batches(stage, 5 * sizes.submits),
            },
        )
        figures |= {f"{label}_per_s": round(statistics.median(rates)) for label, rates in submitted.items()}
    if sizes.latency_seconds:
        figures["latency_ms"] = asdict(await latency.measured(stage, sizes.latency_seconds))
    if sizes.candidates:
        worked = await rounds(
            sizes.candidates,
            {shape.label: partial(draining.ours, stage, shape, sizes.jobs) for shape in CANDIDATES},
        )
        figures["candidates"] = _ratios(worked, CANDIDATES[0].label)
    if sizes.telemetry:
        told = await rounds(
            sizes.telemetry,
            {label: partial(telemetry.drained, stage, label, sizes.jobs) for label in telemetry.PARTS},
        )
        figures["telemetry"] = _ratios(told, telemetry.OFF)
    if sizes.memory_jobs:
        figures["memory"] = asdict(await memory.measured(stage, sizes.memory_jobs))
    if sizes.artifact_mib:
        handed = await artifacts.measured(stage, sizes.artifact_mib, sizes.rounds, _say)
        figures["artifacts"] = asdict(handed)
    await stage.publisher.close()
    return figures


def table(figures: dict[str, Any]) -> str:
    """The figures for a reader."""
    sizes = figures["sizes"]
    settings = ", ".join(f"{name} {value}" for name, value in figures["settings"].items())
    bare, faster = figures["bare_aio_pika_per_s"], figures["bare_aio_pika_uvloop_per_s"]
    lines = [
        f"PostgreSQL: {settings}; medians of {sizes['rounds']} interleaved rounds",
        f"no-op jobs drained a second, {sizes['jobs']} jobs",
        _row("bare aio-pika consume + ack", f"asyncio, prefetch {PREFETCH}", bare, 1.0),
        _row("bare aio-pika consume + ack", f"uvloop, prefetch {PREFETCH}", faster, faster / bare),
        _row("brokerjobs", f"uvloop, {TUNED}", figures["drain_per_s"], figures["drain_ratio"]),
        _row(
            "brokerjobs, default", f"uvloop, {DEFAULT}", figures["drain_default_per_s"], figures["drain_default_ratio"]
        ),
    ]
    if "submit_per_s" in figures:
        lines += [
            "submissions a second",
            _row("submit", f"{submitting.IN_FLIGHT} in flight", figures["submit_per_s"]),
            _row("submit_many", f"batches of {submitting.BATCH}", figures["submit_many_per_s"]),
        ]
    if late := figures.get("latency_ms"):
        lines.append(f"submit to handler at {latency.RATE} jobs/s: p50 {late['p50']} ms, p99 {late['p99']} ms")
    if candidates := figures.get("candidates"):
        lines.append("where handlers could run")
        lines += [_row(label, str(TUNED), one["per_s"], one["ratio"]) for label, one in candidates.items()]
    if told := figures.get("telemetry"):
        lines.append("with telemetry, by OTLP to a receiver on the same cores")
        lines += [_row(label, str(TUNED), one["per_s"], one["ratio"]) for label, one in told.items()]
    if held := figures.get("memory"):
        lines.append(
            f"memory, {memory.SHAPE}, {held['jobs']} jobs: {held['warm_mb']} MB warm, {held['most_mb']} MB at most, "
            f"drift {held['drift']:.1%}"
        )
    if handed := figures.get("artifacts"):
        lines.append(
            f"an artifact of {handed['mib']} MiB in a folder, seconds (of them fsync); "
            f"{handed['most_mb']} MB resident at most"
        )
        lines.append(f"  sha256sum {handed['sha256sum_s']:.2f} + cp {handed['cp_s']:.2f}")
        lines += [
            f"  {what} {handed[f'{what}_s']:.2f} ({handed[f'{what}_fsync_s']:.2f}), ratio {handed[f'{what}_ratio']:.2f}"
            for what in ("put", "fetch")
        ]
    return "\n".join(lines)


def _ratios(worked: dict[str, list[float]], first: str) -> dict[str, dict[str, float]]:
    """Medians, and their ratios to the first one's."""
    medians = {label: statistics.median(rates) for label, rates in worked.items()}
    return {label: {"per_s": round(rate), "ratio": round(rate / medians[first], 3)} for label, rate in medians.items()}


def _row(who: str, how: str, rate: int, ratio: float | None = None) -> str:
    return f"  {who:<30} {how:<42} {rate:>7}/s" + ("" if ratio is None else f"  {ratio:>6.3f}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Parses the arguments, runs, prints tables and writes build/bench.json."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of a table")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs drained in a round")
    parser.add_argument(
        "--submits", type=int, default=4_000, help="single submissions in a round; five times in batches"
    )
    parser.add_argument("--latency-seconds", type=int, default=20)
    parser.add_argument("--memory-jobs", type=int, default=200_000)
    parser.add_argument("--candidates", type=int, default=0, help="rounds of other places for handlers (decision 0002)")
    parser.add_argument("--artifact-mib", type=int, default=1024, help="size of the file that is staged and fetched")
    parser.add_argument("--telemetry", type=int, default=0, help="rounds with none, some and all jobs traced")
    sizes = Sizes(**vars(parser.parse_args()))
    with servers() as stage:
        figures = asyncio.run(run(stage, sizes))
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "bench.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(table(figures))


if __name__ == "__main__":
    main()
