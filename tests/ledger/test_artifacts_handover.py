"""Consumers in any language: list, compare, acknowledge; what was said first stays, and each login may what it may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from brokerjobs.ledger.artifacts import Acknowledgement, Mismatch, Said
from tests.ledger.staging import DAY, HOUR, SIZE, WEEK, Staging, named, sha256_of

if TYPE_CHECKING:
    from uuid import UUID

    from tests.ledger.ledger_driver import Ledger

LOGIN = "brokerjobs_test_producer"


@pytest.fixture
def staging(ledger: Ledger) -> Staging:
    """The artifacts of a test."""
    ledger.coordinator.sql("select brokerjobs.make_partitions(8)")
    return Staging(ledger)


@pytest.fixture
def artifact_id(staging: Staging) -> UUID:
    """An artifact that is part of its job's result."""
    return staging.handed_over(content_type="application/pdf", keep_for=2 * DAY)[1]


def json_of(staging: Staging, artifact_id: UUID) -> dict[str, Any]:
    """What plain SQL answers."""
    ((found,),) = staging.ledger.producer.sql("select brokerjobs.artifact_v1(%s)", artifact_id)
    assert isinstance(found, dict)
    return found  # pyright: ignore[reportUnknownVariableType]


def test_artifact_json__says_all_that_is_known(staging: Staging) -> None:
    holding, artifact_id = staging.handed_over(content_type="application/pdf", keep_for=2 * DAY)
    now = staging.ledger.clock.now.astimezone(UTC)

    assert json_of(staging, artifact_id) == {
        "schema": "brokerjobs.staged_artifact/1",
        "id": str(artifact_id),
        "job": str(holding.job_id),
        "attempt": str(holding.attempt_id),
        "number": 1,
        "fencing_number": str(holding.fencing_number),
        "namespace": staging.ledger.place.namespace,
        "name": "report.pdf",
        "content_type": "application/pdf",
        "state": "ready",
        "visible": True,
        "size": SIZE,
        "sha256": sha256_of(),
        "store": staging.store,
        "path": f"{holding.job_id}/{holding.attempt_id}/{artifact_id}",
        "made_at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        "ready_at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        "keep_for_seconds": 2 * DAY,
        "expires_at": f"{now + timedelta(days=2):%Y-%m-%dT%H:%M:%S.%fZ}",
        "acknowledged": None,
        "mismatch": None,
        "expired_at": None,
        "removing": None,
        "removed_at": None,
    }


def test_artifact_json__is_the_same_wherever_it_is_shown(staging: Staging) -> None:
    holding, artifact_id = staging.handed_over()
    ((listed,),) = staging.ledger.producer.sql("select brokerjobs.artifacts_v1(%s)", holding.job_id)

    assert listed == json_of(staging, artifact_id)
    assert staging.ledger.producer.record(holding.job_id)["artifacts"] == [listed]
    assert staging.shown(artifact_id).record == listed


def test_artifact__that_nobody_knows_is_null(staging: Staging) -> None:
    assert staging.ledger.producer.sql("select brokerjobs.artifact_v1(%s)", uuid4()) == [(None,)]


def test_acknowledge__records_who_has_a_copy_where(staging: Staging, artifact_id: UUID) -> None:
    now = staging.ledger.clock.now
    said = staging.acknowledge(artifact_id, sha256_of().upper(), "s3://archive/7", "archive of ann")

    assert said.verdict == "acknowledged"
    assert said.detail["repeated"] is False
    shown = staging.shown(artifact_id)
    assert shown.acknowledged == Acknowledgement(now, "archive of ann", LOGIN, "s3://archive/7")
    assert (shown.state, shown.expires_at, shown.size, shown.sha256) == ("acknowledged", None, SIZE, sha256_of())


def test_acknowledge__twice_changes_nothing(staging: Staging, artifact_id: UUID) -> None:
    first = staging.acknowledge(artifact_id, copied_to="/archive/1", by="ann")
    staging.ledger.clock.advance(1)
    again = staging.acknowledge(artifact_id, copied_to="/archive/2", by="bob")

    assert (first.verdict, again.verdict) == ("acknowledged", "acknowledged")
    assert again.detail == {**first.detail, "repeated": True}
    assert (again.detail["by"], again.detail["copied_to"]) == ("ann", "/archive/1")


def test_acknowledge__says_the_login_for_who_is_not_named(staging: Staging, artifact_id: UUID) -> None:
    staging.acknowledge(artifact_id, by=None)

    acknowledged = staging.shown(artifact_id).acknowledged
    assert acknowledged is not None
    assert (acknowledged.by, acknowledged.login) == (LOGIN, LOGIN)


@pytest.mark.parametrize("before", ["ready", "acknowledged", "hash_mismatch"])
def test_acknowledge__of_another_hash_is_refused(staging: Staging, artifact_id: UUID, before: str) -> None:
    if before == "acknowledged":
        staging.acknowledge(artifact_id)
    elif before == "hash_mismatch":
        staging.mismatch(artifact_id)
    was = json_of(staging, artifact_id)
    for sha256 in (sha256_of("other"), "", "nonsense"):
        assert staging.acknowledge(artifact_id, sha256) == Said("hash_differs", {"sha256": sha256_of(), "size": SIZE})

    assert json_of(staging, artifact_id) == was


def test_acknowledge__is_refused_before_the_upload_has_ended(staging: Staging) -> None:
    holding = staging.ledger.worker.take(staging.ledger.submit())
    begun, discarded = staging.begun(holding, "a"), staging.begun(holding, "b")
    staging.discard(discarded, holding)
    staging.ledger.worker.complete(holding)

    assert staging.acknowledge(begun) == Said("not_ready", {"state": "staging", "job_state": "succeeded"})
    assert staging.acknowledge(discarded).verdict == "not_ready"
    assert staging.acknowledge(uuid4()) == Said("unknown", {})


def test_acknowledge__is_refused_before_its_attempt_is_accepted(staging: Staging) -> None:
    holding = staging.ledger.worker.take(staging.ledger.submit())
    artifact_id = staging.put(holding)

    assert staging.acknowledge(artifact_id) == Said("not_accepted", {"state": "ready", "job_state": "running"})
    staging.ledger.worker.complete(holding)
    assert staging.acknowledge(artifact_id).verdict == "acknowledged"


@pytest.mark.parametrize(("copied_to", "by"), [("", "ann"), ("/x", ""), ("/" * 4097, "ann"), ("/x", "a" * 4097)])
def test_acknowledge__says_where_and_who(staging: Staging, artifact_id: UUID, copied_to: str, by: str) -> None:
    with pytest.raises(errors.InvalidParameterValue):
        staging.acknowledge(artifact_id, copied_to=copied_to, by=by)

    assert staging.shown(artifact_id).state == "ready"


def test_acknowledge__after_the_time_limit_is_a_fact_all_the_same(staging: Staging, artifact_id: UUID) -> None:
    """The consumer has its own copy; that nobody had said so in time stays."""
    staging.ledger.clock.advance(2 * DAY)
    assert staging.sweep() == {artifact_id: "unacknowledged"}
    staging.removed(artifact_id)

    assert staging.acknowledge(artifact_id).verdict == "acknowledged"
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.removing and shown.removing.why) == ("acknowledged", "unacknowledged")
    assert shown.expired_at == shown.removed_at == staging.ledger.clock.now
    staging.stays(HOUR, WEEK)


def test_acknowledge__in_a_transaction_that_is_rolled_back_is_none(staging: Staging, artifact_id: UUID) -> None:
    producer = staging.ledger.producer
    producer.begin()
    staging.acknowledge(artifact_id)
    producer.rollback()

    assert staging.shown(artifact_id).state == "ready"


def test_acknowledge__in_an_open_transaction_holds_up_no_worker(staging: Staging) -> None:
    """It takes a row only when it is to be written: what is not accepted yet is none."""
    holding = staging.ledger.worker.take(staging.ledger.submit())
    artifact_id = staging.begun(holding)
    producer = staging.ledger.producer
    producer.begin()
    assert staging.acknowledge(artifact_id).verdict == "not_ready"
    assert staging.mismatch(artifact_id) == "unknown"

    staging.ledger.worker.sql("set statement_timeout = '1s'")
    assert staging.ready(artifact_id, holding) == "ready"
    assert staging.ledger.worker.complete(holding, named(artifact_id)).verdict == "accepted"
    staging.ledger.worker.sql("set statement_timeout = 0")
    producer.rollback()


def test_mismatch__is_noted_once(staging: Staging, artifact_id: UUID) -> None:
    now = staging.ledger.clock.now
    assert staging.mismatch(artifact_id, SIZE - 1, sha256_of("cut").upper()) == "noted"
    staging.ledger.clock.advance(1)
    assert staging.mismatch(artifact_id, None, None) == "noted"

    shown = staging.shown(artifact_id)
    assert (shown.state, shown.mismatch) == ("hash_mismatch", Mismatch(now, "archive", SIZE - 1, sha256_of("cut")))
    assert (shown.size, shown.sha256) == (SIZE, sha256_of())


def test_mismatch__of_an_object_that_is_missing(staging: Staging, artifact_id: UUID) -> None:
    assert staging.mismatch(artifact_id, None, None) == "noted"

    mismatch = staging.shown(artifact_id).mismatch
    assert mismatch is not None
    assert (mismatch.size, mismatch.sha256) == (None, None)


def test_mismatch__that_is_none_is_not_noted(staging: Staging, artifact_id: UUID) -> None:
    assert staging.mismatch(artifact_id, SIZE, sha256_of().upper()) == "matches"
    assert staging.mismatch(uuid4()) == "unknown"
    assert staging.shown(artifact_id).state == "ready"


def test_mismatch__of_what_is_being_removed_is_none(staging: Staging, artifact_id: UUID) -> None:
    staging.ledger.clock.advance(2 * DAY)
    staging.sweep()

    assert staging.mismatch(artifact_id, None, None) == "removed"
    assert staging.shown(artifact_id).mismatch is None


def test_mismatch__does_not_refuse_a_result_that_is_still_to_come(staging: Staging) -> None:
    """Whoever looks at the output of a running attempt says nothing that its result could fail by."""
    holding = staging.ledger.worker.take(staging.ledger.submit())
    artifact_id = staging.put(holding)

    assert staging.mismatch(artifact_id, None, None) == "not_accepted"

    assert staging.shown(artifact_id).state == "ready"
    assert staging.ledger.worker.complete(holding, named(artifact_id)).verdict == "accepted"


@pytest.mark.parametrize(
    ("by", "size", "sha256"),
    [
        (None, 1, "0" * 64),
        ("", 1, "0" * 64),
        ("x", -1, "0" * 64),
        ("x", 1, "g" * 64),
        ("x", 1, "0" * 63),
        ("x", 1, None),
    ],
)
def test_mismatch__says_who_found_what(
    staging: Staging, artifact_id: UUID, by: str | None, size: int | None, sha256: str | None
) -> None:
    with pytest.raises(errors.InvalidParameterValue):
        staging.ledger.producer.sql(
            "select brokerjobs.artifact_mismatch_v1(%s, %s, %s, %s)", artifact_id, by, size, sha256
        )


def test_mismatch__after_an_acknowledgement_is_kept_beside_it(staging: Staging, artifact_id: UUID) -> None:
    staging.acknowledge(artifact_id)
    assert staging.mismatch(artifact_id) == "noted"

    shown = staging.shown(artifact_id)
    assert (shown.state, shown.mismatch is not None) == ("acknowledged", True)


def test_mismatch__can_be_acknowledged_all_the_same(staging: Staging, artifact_id: UUID) -> None:
    staging.mismatch(artifact_id)

    assert staging.acknowledge(artifact_id).verdict == "acknowledged"
    assert staging.shown(artifact_id).mismatch is not None


READS = ("select brokerjobs.artifact_v1('{id}')", "select count(*) from brokerjobs.artifacts_v1('{id}', true)")
LOOKS = ("select * from brokerjobs.list_orphans('s3://none', null, null, null, 1)",)
SAYS = (
    "select * from brokerjobs.acknowledge_artifact_v1('{id}', 'x', '/x')",
    f"select brokerjobs.artifact_mismatch_v1('{{id}}', 'x', 1, '{0:064}')",
)
UPLOADS = (
    "select * from brokerjobs.artifact_stage('{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
    "select * from brokerjobs.artifact_ready('{{}}', '{{}}', '{{}}', '{{}}')",
    "select * from brokerjobs.artifact_discard('{{}}', '{{}}', '{{}}')",
)
SWEEPS = (
    "select * from brokerjobs.artifacts_to_remove('s3://none', '1 h', '1 d', '1 h', 1)",
    "select brokerjobs.artifacts_removed('{{}}')",
    "select * from brokerjobs.artifacts_known('s3://none', '{{}}', '{{}}')",
    "select * from brokerjobs.orphans_to_remove('s3://none', '1 d', 1)",
    "select brokerjobs.orphans_removed('s3://none', '{{}}')",
)
MAY = {
    "producer": (*READS, *SAYS),
    "operator": (*READS, *LOOKS, *SAYS),
    "reader": (*READS, *LOOKS),
    "worker": UPLOADS,
    "coordinator": SWEEPS,
}


@pytest.mark.parametrize("kind", MAY)
def test_logins__may_what_they_are_for(staging: Staging, kind: str) -> None:
    caller = staging.ledger.open(kind)
    for statement in (*READS, *LOOKS, *SAYS, *UPLOADS, *SWEEPS):
        text = statement.format(id=uuid4()).encode()
        if statement in MAY[kind]:
            caller.connection.execute(text)
        else:
            with pytest.raises(errors.InsufficientPrivilege):
                caller.connection.execute(text)


FACTS = [
    "size = 8",
    "sha256 = repeat('0', 64)",
    "ready_at = now()",
    "acknowledged_at = now()",
    "acknowledged_by = 'me'",
    "acknowledged_login = 'me'",
    "copied_to = '/dev/null'",
    "mismatch = '{}'",
    "expired_at = now()",
    "removing_at = now()",
    "removing_why = 'mismatch'",
    "removing_detail = 'so'",
    "removed_at = now()",
    "removed_at = null",
    "name = 'other'",
    "path = '/'",
    "store = 'file:///'",
    "attempt_id = gen_random_uuid()",
    "job_id = gen_random_uuid()",
    "keep_for = '1 h'",
    "made_at = now()",
]


@pytest.mark.parametrize("change", FACTS)
def test_facts__are_written_once(staging: Staging, artifact_id: UUID, change: str) -> None:
    """Not even the ledger's owner writes them again."""
    staging.mismatch(artifact_id)
    staging.acknowledge(artifact_id)
    staging.ledger.clock.advance(HOUR)
    assert staging.sweep() == {artifact_id: "acknowledged"}
    staging.removed(artifact_id)
    staging.ledger.setting_up.sql("alter table brokerjobs.artifact disable trigger artifact_facts_once")
    staging.ledger.owner.execute(
        "update brokerjobs.artifact set expired_at = removed_at, removing_detail = 'it' where id = %s", [artifact_id]
    )
    staging.ledger.setting_up.sql("alter table brokerjobs.artifact enable trigger artifact_facts_once")
    was = json_of(staging, artifact_id)

    with pytest.raises(psycopg.Error) as refused:
        staging.ledger.owner.execute(f"update brokerjobs.artifact set {change} where id = %s".encode(), [artifact_id])

    assert refused.value.sqlstate == "BJ004"
    assert json_of(staging, artifact_id) == was


@pytest.mark.parametrize("statement", ["delete from brokerjobs.artifact where id = %s", "truncate brokerjobs.artifact"])
def test_rows__go_by_retention_alone(staging: Staging, artifact_id: UUID, statement: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        staging.ledger.owner.execute(statement.encode(), [artifact_id] if "%s" in statement else None)

    assert refused.value.sqlstate == "BJ004"


def test_times__are_the_ledgers(staging: Staging, artifact_id: UUID) -> None:
    assert staging.shown(artifact_id).made_at == staging.ledger.clock.now
    assert staging.shown(artifact_id).made_at > datetime.now(UTC) + timedelta(days=1)
