from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import brokerjobs
from brokerjobs import artifact_errors, error_base, errors

JOB, ATTEMPT = UUID(int=1), UUID(int=2)
ARTIFACT = UUID(int=3)
LOST = errors.AttemptError(
    number=1,
    attempt_id=ATTEMPT,
    worker="w-1",
    failure_class="temporary",
    error_type="OSError",
    message="no route",
    claimed_at=datetime(2024, 1, 1, tzinfo=UTC),
    ended_at=None,
)
MODULES = {errors.__name__, artifact_errors.__name__, error_base.__name__}
EXAMPLES = [
    errors.ConfigurationError("wrong:", problems=("a", "b")),
    errors.JobTypeConflict(job_type="x", problems=("lease: 1s, then 2s",)),
    errors.MissingHandler(job_type="x"),
    errors.SchemaMismatch("too old", command="brokerjobs setup"),
    errors.TopologyMismatch(queue="q", argument="x-queue-type", existing="classic", wanted="quorum"),
    errors.LedgerUnavailable("no answer"),
    errors.LoginRefused("wrong password"),
    errors.BrokerUnavailable("no answer"),
    errors.PermissionDenied("no"),
    errors.UnknownJobType(namespace="n", job_type="x"),
    errors.InvalidPayload(job_type="x", path="", problem="p {0} {path}"),
    errors.PayloadTooLarge(job_type="x", size=3, limit=2),
    errors.IdempotencyConflict(job_id=JOB, key="k", submitted_by="b", first_submitted_by="a"),
    errors.KeyInFlight(job_type="x", key="k"),
    errors.ExpiredRecord(job_id=JOB, job_type="x", key="k", first_submitted_by="a"),
    errors.WrongIsolation(level="SERIALIZABLE"),
    errors.StaleAttempt(job_id=JOB, attempt_id=ATTEMPT, fencing_number=7, reason="newer_attempt"),
    errors.StopRequested(job_id=JOB, attempt_id=ATTEMPT, reason="cancel"),
    errors.AlreadyReported(job_id=JOB, attempt_id=ATTEMPT),
    errors.ResultMissing(job_id=JOB, attempt_id=ATTEMPT),
    errors.InvalidResult(job_type="x", path="a[1]", problem="p"),
    errors.ResultTooLarge(job_type="x", size=3, limit=2),
    errors.JobNotFound(job_id=JOB),
    errors.JobFailed(job_id=JOB, failure_class="exhausted", reason="5 of 5 attempts used", attempts=(LOST,)),
    errors.JobCancelled(job_id=JOB),
    errors.InReview(job_id=JOB, reason="r"),
    errors.DecidedByPerson(
        job_id=JOB, by="ann", at=datetime(2024, 1, 1, tzinfo=UTC), reason="I looked", reference="psp 4711"
    ),
    errors.ResultTimeout(job_id=JOB, timeout=timedelta(seconds=5), state="running"),
    errors.RefusedMove(job_id=JOB, state="succeeded"),
    errors.TemporaryFailure("busy", retry_after=timedelta(seconds=1)),
    errors.InvalidJob("i"),
    errors.PolicyRejected("p"),
    errors.UnknownOutcome("u"),
    errors.DidNotHappen("d"),
    errors.EffectUnknown(job_id=JOB, attempt_id=ATTEMPT, effect="charge", key=f"{JOB}/charge"),
    errors.Snooze(datetime(2024, 1, 1, tzinfo=UTC)),
    errors.InvalidArtifact(name="a", problem="p"),
    errors.ArtifactTooLarge(name="a", limit=2),
    errors.ArtifactNameUsed(job_id=JOB, attempt_id=ATTEMPT, name="a"),
    errors.ArtifactStoreUnavailable(store="s3://b", problem="p"),
    errors.ArtifactStoreRefused(store="s3://b", problem="p"),
    errors.ArtifactStoreFull(store="file:///b", problem="p"),
    errors.InvalidReference(value="'a'", what="job", instead="its handle"),
    errors.ArtifactNotFound(artifact_id=ARTIFACT),
    errors.ArtifactNotReady(artifact_id=ARTIFACT, state="staging"),
    errors.ArtifactNotVisible(artifact_id=ARTIFACT, job_id=JOB, number=2),
    errors.ArtifactGone(artifact_id=ARTIFACT, since="2024-01-01", why="acknowledged"),
    errors.HashMismatch(artifact_id=ARTIFACT, size=3, sha256="ab", found="it is missing", to="here"),
    errors.AcknowledgementRefused(artifact_id=ARTIFACT, problem="p"),
]


def pickled(error: errors.BrokerjobsError) -> Any:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("error", EXAMPLES, ids=[type(error).__name__ for error in EXAMPLES])
@pytest.mark.parametrize("again", [pickled, copy.copy])
def test_errors__survive_pickle_and_copy(error: errors.BrokerjobsError, again: Any) -> None:
    copied = again(error)

    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_errors__every_one_that_callers_meet_has_an_example_and_is_public() -> None:
    def below(kind: type[errors.BrokerjobsError]) -> set[type[errors.BrokerjobsError]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__() if one.__module__ in MODULES))

    kinds = {kind for kind in below(errors.BrokerjobsError) if not kind.__name__.startswith("_")}
    roots = {errors.BrokerjobsError, errors.SubmissionRefused, errors.HandlerSignal, errors.ArtifactError}

    assert {type(example) for example in EXAMPLES} == kinds - roots
    assert {kind.__name__ for kind in kinds} <= set(brokerjobs.__all__)
    assert all(inspect.getdoc(kind) for kind in kinds)


def test_errors__messages_say_what_where_and_what_to_do() -> None:
    texts = {type(example).__name__: str(example) for example in EXAMPLES}

    assert texts["InvalidPayload"] == "payload of job type 'x' is invalid at top level: p {0} {path}"
    assert texts["PayloadTooLarge"].startswith(
        "payload of job type 'x' is 3 bytes of JSON, 1 over the limit of 2; keep"
    )
    assert texts["UnknownJobType"].endswith("`brokerjobs setup module:app` or start a worker that has it")
    assert texts["IdempotencyConflict"].startswith("key 'k' was first used by 'a' for job 00000000-0000-0000-0000-00")
    assert texts["JobCancelled"].endswith("was cancelled: no reason given")
    assert "5 of 5 attempts used; the last attempt: OSError: no route" in texts["JobFailed"]
    assert "READ COMMITTED" in texts["WrongIsolation"]
    assert "--recreate q" in texts["TopologyMismatch"]
    assert texts["ConfigurationError"] == "wrong:\n  a\n  b"


def test_job_failed__says_the_last_error_once_and_in_short() -> None:
    def failed(reason: str, message: str) -> str:
        last = dataclasses.replace(LOST, error_type="ValueError", message=message)
        return str(errors.JobFailed(job_id=JOB, failure_class="x", reason=reason, attempts=(LOST, last)))

    assert failed("no order 7", "no order 7").endswith("failed (x): no order 7")
    assert failed("used up", "x" * 5000).endswith(f"used up; the last attempt: ValueError: {'x' * 288}…")
    assert failed("used up", "").endswith("used up")


def test_errors__evidence_is_checked() -> None:
    with pytest.raises(TypeError, match=r"KeyInFlight takes \['job_type', 'key'\], not \['key', 'why'\]"):
        errors.KeyInFlight(key="k", why="w")  # type: ignore[call-arg]  # what is tested


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (timedelta(seconds=-5), timedelta(0)),
        (timedelta.max, timedelta(days=365)),
        (timedelta(seconds=5), timedelta(seconds=5)),
    ],
)
def test_temporary_failure__keeps_its_wait_within_bounds(asked: timedelta, kept: timedelta) -> None:
    assert errors.TemporaryFailure("x", retry_after=asked).retry_after == kept


def test_snooze__needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        errors.Snooze(datetime(2024, 1, 1))  # noqa: DTZ001
