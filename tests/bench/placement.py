"""`python -m tests.bench.placement`: what a tick of the explainer costs with 200 routes and 50 workers.

Prints milliseconds of the ledger's look, of reading it, and of the comparison, and their sum beside the limit of 50 ms.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from uuid_utils.compat import uuid7

from brokerjobs.coordinator.explainer import changes
from brokerjobs.ledger import placing, schema, services
from brokerjobs.ledger.calls import ProcessIdentity
from brokerjobs.ledger.database import ConnectOptions, LedgerConnection
from brokerjobs.ledger.ticks import Candidacy
from brokerjobs.rules import capabilities
from brokerjobs.rules.needs import AtLeast, Equal, Has
from brokerjobs.rules.terms import Terms
from brokerjobs.servers.postgres import PrivatePostgres

ROUTES: Final = 200
WORKERS: Final = 50
_KINDS: Final = 20
_ROUNDS: Final = 30
_LIMIT_MS: Final = 50.0


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="brokerjobs-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = PrivatePostgres.start(folder / "postgres", {}, fsync=True)
        try:
            schema.apply(postgres.url)
            _measure(LedgerConnection(ConnectOptions(postgres.url)))
        finally:
            postgres.stop()


def _measure(ledger: LedgerConnection) -> None:
    _register(ledger)
    process = ProcessIdentity(uuid7(), "bench", "host", 1)
    candidacy = Candidacy("explainer", process, 4.0)
    looks: list[float] = []
    comparisons: list[float] = []
    said = 0
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        [found] = ledger.fetch(placing.placement(candidacy))
        looked = time.perf_counter()
        said = len(list(changes(found.workers or (), found.routes or ())))
        looks.append((looked - started) * 1000)
        comparisons.append((time.perf_counter() - looked) * 1000)
    look, comparison = statistics.median(looks), statistics.median(comparisons)
    print(f"{ROUTES} routes, {WORKERS} workers of {_KINDS} kinds, {said} reports to write")
    print(f"look {look:.1f} ms + comparison {comparison:.1f} ms = {look + comparison:.1f} ms, limit {_LIMIT_MS:g} ms")


def _register(ledger: LedgerConnection) -> None:
    for number in range(ROUTES):
        wanted = (Equal("gpu", f"g{number % 25}"), AtLeast("memory", f"{number % 30 + 1}GiB"), Has("set", f"s{number}"))
        data = {"name": f"t{number}", **Terms(repeatable=True, needs=wanted).as_data(), "fingerprint": "f" * 64}
        ledger.fetch(services.register_types("bench", [data], change=False))
    for number in range(WORKERS):
        has = {"os": "linux", "gpu": f"g{number % _KINDS}", "memory": f"{number % _KINDS + 1}GiB"}
        process = ProcessIdentity(uuid7(), f"w{number}", "host", number)
        detail = {"capabilities": capabilities.of(has).as_data(), "heartbeat_seconds": 3600}
        types = [f"t{one}" for one in range(ROUTES)]
        said = services.Heartbeat(process, "worker", "bench", types, (), "online", datetime.now(UTC), detail)
        ledger.fetch(services.heartbeat(said))


if __name__ == "__main__":
    main()
