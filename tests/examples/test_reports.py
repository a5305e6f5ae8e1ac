"""The example of large outputs: staged by its worker, taken over by its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.examples.reports import consumer, contracts, worker
from tests.flow.driving import coordinating, flow

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.databases import Database


async def test_report__is_staged_by_the_worker_and_taken_over_by_the_consumer(
    database: Database,
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = StoreOptions(url=str(tmp_path / "store"))
    monkeypatch.setenv("BROKERJOBS_DATABASE_URL", database.producer_url)
    monkeypatch.setenv("BROKERJOBS_BROKER_URL", broker_url)
    monkeypatch.setenv("BROKERJOBS_ARTIFACTS__URL", str(tmp_path / "store"))

    async with flow(worker.app, database, broker_url) as made, coordinating(made):
        async with made.working(made.worker(artifacts=store)):
            first = await consumer.consume(2026, tmp_path)
            again = await consumer.consume(2026, tmp_path)
        async with worker.app.client(submitted_by="tests") as client:
            found = await client.find(contracts.make_report, key="report-2026")
        assert found is not None
        [listed] = (await made.record(found.id))["artifacts"]

    lines = first.read_text().splitlines()
    assert first == again == tmp_path / "2026.csv"
    assert (lines[0], len(lines)) == ("date,sale,cents", 1 + 365 * 200)
    assert (listed["name"], listed["state"], listed["size"]) == ("sales-2026.csv", "acknowledged", first.stat().st_size)
    assert listed["acknowledged"]["copied_to"].endswith(f":{first}")
    assert listed["sha256"] == consumer.sha256_of(first)
    assert f"{365 * 200} sales, " in capsys.readouterr().out
