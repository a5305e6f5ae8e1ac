"""A worker of the previous release knows no pause: it parks the jobs of a paused type all the same, and runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.rolling.releases import Look, Release

pytestmark = pytest.mark.timeout(300)


async def test_worker__of_the_previous_release_begins_no_job_of_a_paused_type(
    previous: Release, this: Release, look: Look
) -> None:
    previous.setup()
    this.setup()
    owner, add = look.database.owner_url, f"{look.namespace}/add"
    this.run("types", "pause", add, "--reason", "no sums today", database_url=owner).ok()
    with this.coordinator(), previous.worker("previous-1") as worker:
        jobs = this.produce(2)
        paused, others = [*jobs[:2], jobs[-1]], jobs[2:-1]
        look.wait_until_succeeded(others)
        look.wait_until(
            paused,
            lambda: (
                len(
                    look.rows(
                        "select from brokerjobs.job_state where job_id = any (%s::uuid[]) and waiting = 'pause'", paused
                    )
                )
                == len(paused)
            ),
        )
        assert all(not look.attempts_of(job) for job in paused)

        this.run("types", "resume", add, database_url=owner).ok()
        look.wait_until_succeeded(paused)
        assert worker.terminated() == 0, worker.log()
        assert "Traceback" not in worker.log()

    assert await look.quarantined() == []
    assert set(look.workers_of(jobs)) == {"previous-1"}
