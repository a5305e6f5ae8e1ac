"""Uploads: an attempt asks before the first byte, says that all is there, or gives up; all can be asked again."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors
from uuid_utils.compat import uuid7

from brokerjobs.ledger import artifacts
from brokerjobs.ledger.calls import Holding
from brokerjobs.rules.states import ARTIFACT_MOVES, ArtifactState
from tests.ledger.staging import SIZE, Staging, sha256_of

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

HOSTILE = [
    "../../etc/passwd",
    "/etc/shadow",
    "a" * 1000,
    "..",
    "CON",
    "линия 図 🦆 \u202e.pdf",
    " ",
    "a\nb\t'\"\\;--",
    "%00%2f",
]


@pytest.fixture
def staging(ledger: Ledger) -> Staging:
    """The artifacts of a test."""
    return Staging(ledger)


@pytest.fixture
def holding(ledger: Ledger) -> Holding:
    """A running attempt."""
    return ledger.worker.take(ledger.submit())


def test_stage__answers_where_the_object_belongs_and_the_same_again(staging: Staging, holding: Holding) -> None:
    first = staging.stage(holding, id=(artifact_id := uuid7()))

    assert first == artifacts.Staged(
        holding.job_id,
        holding.attempt_id,
        artifact_id,
        "staged",
        None,
        f"{holding.job_id}/{holding.attempt_id}/{artifact_id}",
    )
    assert staging.stage(holding, id=artifact_id) == first
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.visible, shown.size, shown.sha256, shown.ready_at) == (
        "staging",
        False,
        None,
        None,
        None,
    )
    assert (shown.attempt, shown.number, shown.fencing_number) == (holding.attempt_id, 1, holding.fencing_number)
    assert (shown.store, shown.keep_for, shown.made_at) == (staging.store, timedelta(days=7), staging.ledger.clock.now)


def test_stage__is_answered_the_same_again_after_the_attempt_has_ended(staging: Staging, holding: Holding) -> None:
    first = staging.stage(holding)
    staging.ledger.worker.fail(holding)

    assert staging.stage(holding, id=first.id) == first


def test_stage__refuses_an_id_that_is_anothers(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.begun(holding)
    other = staging.ledger.worker.take(staging.ledger.submit())

    by_another = staging.stage(other, id=artifact_id)
    by_name = staging.stage(holding, "another name", id=artifact_id)

    assert [(answer.verdict, answer.reason, answer.path) for answer in (by_another, by_name)] == [
        ("lost", "id_used", None)
    ] * 2
    assert staging.shown(artifact_id).attempt == holding.attempt_id


def test_stage__knows_no_job(staging: Staging) -> None:
    assert staging.stage(Holding(uuid4(), uuid4(), 1)).verdict == "unknown_job"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("succeeded", "job_succeeded"),
        ("cancelled", "job_cancelled"),
        ("failed", "already_reported"),
        ("newer", "newer_attempt"),
        ("forged", "newer_attempt"),
        ("replayed", "decided"),
    ],
)
def test_stage__refuses_an_attempt_that_cannot_be_accepted(staging: Staging, how: str, reason: str) -> None:
    ledger = staging.ledger
    holding = ledger.worker.take(ledger.submit())
    match how:
        case "succeeded":
            ledger.worker.complete(holding)
        case "cancelled":
            ledger.producer.cancel(holding.job_id)
            ledger.worker.release(holding, "cancelled")
        case "failed":
            ledger.worker.fail(holding)
        case "newer":
            ledger.lose(holding)
            ledger.ring_again(holding.job_id)
            ledger.worker.take(holding.job_id)
        case "replayed":
            ledger.worker.fail(holding, {"class": "invalid", "classified": True, "type": "E", "message": "no"})
            assert ledger.operator.replay(holding.job_id) == ["replayed"]
        case _:
            holding = Holding(holding.job_id, holding.attempt_id, holding.fencing_number + 1)
    answer = staging.stage(holding)

    assert (answer.verdict, answer.reason, answer.path) == ("lost", reason, None)
    assert staging.listed(holding.job_id, all_attempts=True) == []


def test_stage__is_granted_while_a_late_success_would_be_accepted(staging: Staging, holding: Holding) -> None:
    staging.ledger.lose(holding)

    assert staging.stage(holding).verdict == "staged"


def test_stage__does_not_wait_for_the_jobs_row(staging: Staging, holding: Holding) -> None:
    other = staging.ledger.open("worker")
    other.begin()
    other.renew(holding)

    assert staging.stage(holding).verdict == "staged"
    other.rollback()


def test_names__are_used_once_an_attempt(staging: Staging, holding: Holding) -> None:
    other = staging.ledger.worker.take(staging.ledger.submit())
    staging.put(holding)

    assert staging.stage(holding).verdict == "name_used"
    assert staging.stage(holding, "report.PDF").verdict == "staged"
    assert staging.stage(other).verdict == "staged"


def test_names__of_uploads_that_did_not_end_are_free(staging: Staging, holding: Holding) -> None:
    given_up, abandoned = staging.begun(holding), staging.begun(holding)
    staging.discard(given_up, holding)

    assert staging.put(holding) not in {given_up, abandoned}


def test_names__belong_to_the_upload_that_is_ready_first(staging: Staging, holding: Holding) -> None:
    first, second = staging.begun(holding), staging.begun(holding)

    assert staging.ready(second, holding) == "ready"
    assert staging.ready(first, holding) == "name_used"
    assert staging.ready(first, holding) == "discarded"
    shown = staging.shown(first)
    assert (shown.state, shown.removing and shown.removing.why) == ("discarded", "incomplete")
    assert staging.shown(second).state == "ready"


@pytest.mark.parametrize("name", HOSTILE)
def test_names__never_become_paths(staging: Staging, holding: Holding, name: str) -> None:
    answer = staging.stage(holding, name)
    staging.ready(answer.id, holding)

    assert answer.path == f"{holding.job_id}/{holding.attempt_id}/{answer.id}"
    assert staging.shown(answer.id).name == name


@pytest.mark.parametrize("name", ["", "a" * 1025])
def test_names__have_a_length(staging: Staging, holding: Holding, name: str) -> None:
    with pytest.raises(errors.CheckViolation):
        staging.stage(holding, name)


@pytest.mark.parametrize("seconds", [-1.0, 366 * 86400.0])
def test_keep_for__is_a_year_at_most(staging: Staging, holding: Holding, seconds: float) -> None:
    with pytest.raises(errors.CheckViolation):
        staging.stage(holding, keep_for=seconds)


def test_ready__is_a_fact_and_the_same_again(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.begun(holding)

    assert [staging.ready(artifact_id, holding) for _ in range(2)] == ["ready", "ready"]
    staging.ledger.clock.advance(1)
    assert staging.ready(artifact_id, holding, sha256_of("other")) == "differs"
    assert staging.ready(artifact_id, holding, size=SIZE + 1) == "differs"
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.size, shown.sha256) == ("ready", SIZE, sha256_of())
    assert shown.ready_at == staging.ledger.clock.after(-1)


def test_ready__knows_the_upload_by_its_attempt(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.begun(holding)
    other = staging.ledger.worker.take(staging.ledger.submit())

    assert staging.ready(artifact_id, other) == "unknown"
    assert staging.ready(uuid4(), holding) == "unknown"
    assert staging.discard(artifact_id, other) == "unknown"
    assert staging.shown(artifact_id).state == "staging"


def test_ready__is_taken_however_late(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.begun(holding)
    staging.ledger.lose(holding)
    staging.ledger.ring_again(holding.job_id)
    staging.ledger.worker.take(holding.job_id)

    assert staging.ready(artifact_id, holding) == "ready"
    assert staging.listed(holding.job_id, all_attempts=True) == [artifact_id]


@pytest.mark.parametrize("sha256", ["", "A" * 64, "0" * 63, "g" * 64])
def test_ready__takes_no_other_hash_than_hex(staging: Staging, holding: Holding, sha256: str) -> None:
    artifact_id = staging.begun(holding)

    with pytest.raises(errors.CheckViolation):
        staging.ready(artifact_id, holding, sha256)


def test_discard__gives_an_upload_to_the_sweeper_for_good(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.begun(holding)

    assert [staging.discard(artifact_id, holding, why) for why in ("disk full", "again")] == ["discarded"] * 2
    assert staging.ready(artifact_id, holding) == "discarded"
    shown = staging.shown(artifact_id)
    assert shown.state == "discarded"
    assert shown.removing == artifacts.Removing(staging.ledger.clock.now, "incomplete", "disk full")


def test_discard__of_an_accepted_attempt_makes_nothing_visible(staging: Staging, holding: Holding) -> None:
    failed, under_way = staging.begun(holding), staging.begun(holding, "late.pdf")
    staging.discard(failed, holding)

    assert staging.ledger.worker.complete(holding, {"done": True}).verdict == "accepted"

    assert [staging.shown(one).visible for one in (failed, under_way)] == [False, False]


def test_discard__leaves_what_is_whole(staging: Staging, holding: Holding) -> None:
    artifact_id = staging.put(holding)

    assert staging.discard(artifact_id, holding) == "ready"
    assert staging.shown(artifact_id).state == "ready"


def test_attempts__with_the_same_name_stay_apart(staging: Staging, holding: Holding) -> None:
    """Both are shown; what a consumer sees is that of the result."""
    job, ledger = holding.job_id, staging.ledger
    first = staging.put(holding)
    ledger.lose(holding)
    ledger.ring_again(job)
    second = ledger.worker.take(job)
    kept = staging.put(second)
    assert staging.listed(job) == []

    ledger.worker.complete(second, "no word of it")

    assert staging.listed(job) == [kept]
    assert staging.listed(job, all_attempts=True) == [first, kept]
    assert [(one["id"], one["visible"], one["number"]) for one in ledger.producer.record(job)["artifacts"]] == [
        (str(first), False, 1),
        (str(kept), True, 2),
    ]
    assert staging.shown(first).path != staging.shown(kept).path


def test_artifacts__are_ordered_by_attempt_and_readiness(staging: Staging, holding: Holding) -> None:
    later, sooner = staging.begun(holding, "a"), staging.begun(holding, "b")
    staging.ready(sooner, holding)
    staging.ledger.clock.advance(1)
    staging.ready(later, holding)
    unfinished = staging.begun(holding, "c")
    staging.ledger.worker.complete(holding)

    assert staging.listed(holding.job_id) == [sooner, later]
    assert staging.listed(holding.job_id, all_attempts=True) == [sooner, later, unfinished]


def test_artifacts__of_what_nobody_knows_are_none(staging: Staging) -> None:
    assert staging.listed(uuid4(), all_attempts=True) == []
    assert staging.ledger.producer.fetch(artifacts.artifact(uuid4())) == []


def test_dead_letters__say_nothing_of_artifacts(staging: Staging, holding: Holding) -> None:
    """Their names may have parts of the payload."""
    staging.put(holding, "invoice of ann")
    staging.ledger.worker.fail(holding, {"class": "invalid", "classified": True, "type": "E", "message": "no"})

    messages, _ = staging.ledger.coordinator.outbox_take()
    (letter,) = (one.body for one in messages if one.job_id == holding.job_id and one.kind == "dead")

    assert json.loads(letter or "")["id"] == str(holding.job_id)
    assert "invoice of ann" not in (letter or "")


_FACTS: dict[ArtifactState, str] = {
    ArtifactState.STAGING: "",
    ArtifactState.READY: "ready",
    ArtifactState.ACKNOWLEDGED: "ready acknowledged",
    ArtifactState.HASH_MISMATCH: "ready",
    ArtifactState.EXPIRED_UNACKNOWLEDGED: "ready removing",
    ArtifactState.DISCARDED: "removing",
}
_MAKE = {
    "ready": "size = 7, sha256 = repeat('0', 64), ready_at = %(now)s",
    "acknowledged": ("acknowledged_at = %(now)s, acknowledged_by = 'a', acknowledged_login = 'a', copied_to = 'a'"),
    "removing": "removing_at = %(now)s, removing_why = 'not_accepted'",
}


def _become(ledger: Ledger, artifact_id: UUID, state: ArtifactState, *without: str) -> None:
    """Writes a state with the facts that it must have, past the ledger's functions."""
    facts = [_MAKE[fact] for fact in _FACTS[state].split() if fact not in without]
    statement = ", ".join(["update brokerjobs.artifact set state = %(state)s", *facts]) + " where id = %(id)s"
    ledger.owner.execute(statement.encode(), {"state": state, "now": ledger.clock.now, "id": artifact_id})


@pytest.mark.parametrize("before", ArtifactState)
@pytest.mark.parametrize("after", ArtifactState)
def test_moves__are_those_of_the_rules(
    staging: Staging, holding: Holding, before: ArtifactState, after: ArtifactState
) -> None:
    """The table itself refuses every other one, whoever writes it."""
    artifact_id = staging.begun(holding)
    staging.ledger.setting_up.sql("alter table brokerjobs.artifact disable trigger user")
    _become(staging.ledger, artifact_id, before)
    staging.ledger.setting_up.sql("alter table brokerjobs.artifact enable trigger user")
    allowed = before is after or (before, after) in ARTIFACT_MOVES
    with nullcontext() if allowed else pytest.raises(psycopg.Error) as refused:
        _become(staging.ledger, artifact_id, after, *_FACTS[before].split())

    # By a trigger, or because the state that there was owes a fact which that one must not have.
    assert refused is None or refused.value.sqlstate in {"BJ004", "23514"}
