"""Case 21: the process dies around an effect in the world outside; nothing is done twice by mistake, nothing is hidden.

| the process dies | the effect may be repeated, with its key | it may not |
|---|---|---|
| before the intent | done once, by the second attempt | the same |
| after the intent, before the call | done once, by the second attempt | review: nobody knows |
| after the call, before its outcome | called again with the same key: the service knows it | review: nobody knows |
| after the outcome, before the completion | the recorded result is used, no call | the same |
| after the completion, before the acknowledgement | nothing is left to do | the same |
"""

from __future__ import annotations

from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any

import pytest

from tests.flow.driving import coordinating
from tests.flow.processes import stage
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import Database

# Where it dies, whether the effect may be repeated: how often the service is called, and where the job is then.
MATRIX = [
    ("intent", True, 1, "succeeded"),
    ("intent", False, 1, "succeeded"),
    ("call", True, 1, "succeeded"),
    ("call", False, 0, "review"),
    ("outcome", True, 2, "succeeded"),
    ("outcome", False, 1, "review"),
    ("report", True, 1, "succeeded"),
    ("report", False, 1, "succeeded"),
    ("ack", True, 1, "succeeded"),
    ("ack", False, 1, "succeeded"),
]


@pytest.mark.parametrize(("dies_before", "repeatable", "calls", "state"), MATRIX)
async def test_case_21__a_process_that_dies_around_an_effect(
    database: Database,
    namespace: str,
    broker_url: str,
    tmp_path: Path,
    *,
    dies_before: str,
    repeatable: bool,
    calls: int,
    state: str,
) -> None:
    async with stage(database, namespace, broker_url, tmp_path) as on:
        job = await on.made.submit(on.repeatable, ["keyed:charge" if repeatable else "effect:charge"])
        async with coordinating(on.made):
            with on.worker(kill_at=dies_before) as dying:
                assert await dying.ended() == -9
            with on.worker("worker-b"):  # recovery, and again: nothing more happens
                record = await on.made.reached(job.id, state, 20)
                await on.made.ring(job.id, 2)

                async def answered() -> bool:
                    return kinds(await on.made.record(job.id)).count("duplicate_delivery") >= 2

                await eventually(answered, 20)
        again = await on.made.record(job.id)
    assert on.lines("charge") == [f"{job.id}/charge"] * calls
    assert [(one["name"], one["try"]) for one in again["effects"]] == [("charge", 1)]
    assert (again["state"], len(again["attempts"])) == (state, len(record["attempts"]))
    if state == "review":
        _is_reviewed(again)
    else:
        assert again["reviews"] == []
        assert again["effects"][0]["outcome"]["result"] == f"receipt of {job.id}/charge"


def _is_reviewed(record: dict[str, Any]) -> None:
    """With the question and the evidence, and no second run."""
    [review] = record["reviews"]
    assert review["cause"] == "what became of its effect charge is unknown, and it may not be repeated"
    [effect] = record["effects"]
    assert (effect["unknown"], effect["outcome"]) == (True, None)
    assert len(effect["intents"]) == len(record["attempts"]) == 1


def kinds(record: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in record["events"]]


async def test_case_21__a_lease_that_is_lost_in_the_middle_of_a_call_is_reviewed_and_its_late_outcome_closes_that(
    database: Database, namespace: str, broker_url: str, tmp_path: Path
) -> None:
    """The worker is paused for three leases in its call; woken, it says what became of it."""
    async with stage(database, namespace, broker_url, tmp_path) as on:
        job = await on.made.submit(on.repeatable, ["slow_effect:charge"])
        async with coordinating(on.made):
            with on.worker() as paused:
                await on.marked("charge.began")
                paused.signal(SIGSTOP)
                with on.worker("worker-b"):
                    await on.made.reached(job.id, "review", 20)
                    on.mark("charge.go")
                    paused.signal(SIGCONT)
                    record = await on.made.reached(job.id, "succeeded", 20)
    assert on.lines("charge") == [f"{job.id}/charge"]
    assert record["effects"][0]["outcome"]["late"] is True
    assert [one["closed_by"] for one in record["reviews"]] == ["effect_known"]
