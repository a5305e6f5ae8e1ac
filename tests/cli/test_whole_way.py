"""From setup to the record of a job, with every command as a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.databases import Database


def test_job__is_submitted_run_and_shown(brokerjobs: Command, database: Database, shop: str, namespace: str) -> None:
    as_owner = {"BROKERJOBS_DATABASE_URL": database.owner_url}
    as_worker = {"BROKERJOBS_DATABASE_URL": database.worker_url}
    as_coordinator = {"BROKERJOBS_DATABASE_URL": database.coordinator_url}
    brokerjobs.process("setup", shop, env=as_owner).ok()

    with (
        brokerjobs.running("coordinator", said="is up", env=as_coordinator) as coordinator,
        brokerjobs.running("worker", shop, "--no-coordinator", "--name", "w-1", said="is up", env=as_worker) as worker,
    ):
        submitted = brokerjobs.process(
            "submit", f"{namespace}/add", '{"cents": 41}', "--key", "k-1", "--wait", "--timeout", "20s", "-o", "json"
        ).json()
        shown = brokerjobs.process("jobs", "show", submitted["id"], "-o", "json").json()
        assert worker.terminated() == 0, worker.log()
        assert coordinator.terminated() == 0, coordinator.log()

    assert (submitted["verdict"], submitted["state"], submitted["result"]) == ("created", "succeeded", 42)
    assert (shown["schema"], shown["id"], shown["state"], shown["result"]) == (
        "brokerjobs.job/1",
        submitted["id"],
        "succeeded",
        42,
    )
    (attempt,) = shown["attempts"]
    assert (attempt["worker"], attempt["state"], attempt["report"]["verdict"]) == ("w-1", "completed", "accepted")
    assert "Traceback" not in worker.log() + coordinator.log()
    page = brokerjobs.process("jobs", "show", submitted["id"]).ok().out
    assert "succeeded" in page
