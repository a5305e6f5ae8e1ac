"""A result that names artifacts: each is ready, there, as described and its own, or the result is not accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from brokerjobs.ledger import calls
from tests.ledger.effects import Effects, events
from tests.ledger.needing import holders, needing
from tests.ledger.staging import HOUR, SIZE, WEEK, Staging, named, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger


@pytest.fixture
def staging(ledger: Ledger) -> Staging:
    """The artifacts of a test."""
    return Staging(ledger)


def take(staging: Staging, kind: str = "work") -> Holding:
    """A running attempt."""
    return staging.ledger.worker.take(staging.ledger.submit(kind))


def unfinished(staging: Staging, holding: Holding) -> dict[str, Any]:
    return named(staging.begun(holding))


def given_up(staging: Staging, holding: Holding) -> dict[str, Any]:
    artifact_id = staging.begun(holding)
    staging.discard(artifact_id, holding)
    return named(artifact_id)


def of_another_job(staging: Staging, _: Holding) -> dict[str, Any]:
    return named(staging.put(take(staging)))


def of_a_failed_job(staging: Staging, _: Holding) -> dict[str, Any]:
    other = take(staging)
    artifact_id = staging.put(other)
    staging.ledger.worker.fail(other, {"class": "invalid", "classified": True, "type": "E", "message": "no"})
    return named(artifact_id)


def of_another_attempt(staging: Staging, holding: Holding) -> dict[str, Any]:
    """As if by an attempt that came before: what is ready under another attempt's id."""
    artifact_id = staging.put(holding)
    staging.ledger.owner.execute("alter table brokerjobs.artifact disable trigger user")
    staging.ledger.owner.execute("update brokerjobs.artifact set attempt_id = %s where id = %s", [uuid4(), artifact_id])
    staging.ledger.owner.execute("alter table brokerjobs.artifact enable trigger user")
    return named(artifact_id)


def removed(staging: Staging, _: Holding) -> dict[str, Any]:
    _, artifact_id = staging.handed_over()
    staging.ledger.clock.advance(WEEK)
    assert staging.sweep() == {artifact_id: "unacknowledged"}
    staging.removed(artifact_id)
    return named(artifact_id)


def acknowledged(staging: Staging, _: Holding) -> dict[str, Any]:
    """Its staged copy is about to go."""
    _, artifact_id = staging.handed_over()
    assert staging.acknowledge(artifact_id).verdict == "acknowledged"
    return named(artifact_id)


def mismatched(staging: Staging, _: Holding) -> dict[str, Any]:
    """Of another job, whose result was accepted."""
    _, artifact_id = staging.handed_over()
    assert staging.mismatch(artifact_id) == "noted"
    return named(artifact_id)


def with_another_hash(staging: Staging, holding: Holding) -> dict[str, Any]:
    return named(staging.put(holding), sha256=sha256_of("other"))


def with_another_size(staging: Staging, holding: Holding) -> dict[str, Any]:
    return named(staging.put(holding), size=SIZE + 1)


def unknown(_: Staging, __: Holding) -> dict[str, Any]:
    return named(uuid4())


def without_an_id(_: Staging, __: Holding) -> dict[str, Any]:
    return {"schema": "brokerjobs.artifact/1"}


def with_a_strange_id(_: Staging, __: Holding) -> dict[str, Any]:
    return {"schema": "brokerjobs.artifact/1", "id": ["../x"]}


WRONG = {
    unfinished: "is not ready: its upload has not ended",
    given_up: "being removed (incomplete)",
    of_another_job: "not part of the result of its own job",
    of_a_failed_job: "not part of the result of its own job",
    of_another_attempt: "another attempt made",
    acknowledged: "is not ready but acknowledged",
    mismatched: "is not ready but hash_mismatch",
    with_another_hash: "with another SHA-256",
    with_another_size: "with another size",
    unknown: "the ledger does not know",
    without_an_id: "the ledger does not know",
    with_a_strange_id: "the ledger does not know",
    removed: "being removed (unacknowledged)",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_complete__refuses_a_result_that_names(
    staging: Staging, wrong: Callable[[Staging, Holding], dict[str, Any]]
) -> None:
    """As invalid, at once (decision 0024); asked again it is the same answer (R7)."""
    ledger = staging.ledger
    reference = wrong(staging, holding := take(staging))
    if wrong is removed:
        holding = take(staging)  # the other's lease is over since

    answers = [ledger.worker.complete(holding, {"files": [1, {"deep": reference}]}) for _ in range(2)]

    assert {(one.verdict, one.reason, one.late, one.state) for one in answers} == {
        ("rejected", "artifact_not_ready", False, "failed")
    }
    record = ledger.producer.record(holding.job_id)
    assert record["failure"]["class"] == "invalid"
    assert WRONG[wrong] in record["failure"]["reason"]
    (attempt,) = record["attempts"]
    assert attempt["result"] == {"files": [1, {"deep": reference}]}
    assert (attempt["state"], attempt["closed"]["why"]) == ("rejected_stale", "artifact_not_ready")
    assert attempt["safe_to_retry"]["safe"] is True


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_complete_v1__raises_for_a_result_that_names(
    staging: Staging, wrong: Callable[[Staging, Holding], dict[str, Any]]
) -> None:
    """And the attempt has reported nothing: its transaction is rolled back, nothing else."""
    ledger = staging.ledger
    reference = wrong(staging, holding := take(staging))
    if wrong is removed:
        holding = take(staging)

    with pytest.raises(psycopg.Error) as refused:
        ledger.worker.complete_v1(holding, [reference])

    assert refused.value.sqlstate == "22023"
    assert WRONG[wrong] in str(refused.value)
    assert ledger.worker.asked(holding).verdict == "not_reported"
    assert ledger.worker.complete_v1(holding, "another") is False


def test_complete__takes_its_own_and_those_of_other_results(staging: Staging) -> None:
    _, before = staging.handed_over()
    holding = take(staging)
    own, other = staging.put(holding, "a"), staging.put(holding, "b")

    answer = staging.ledger.worker.complete(holding, [named(own), {"of": named(before)}, named(other), named(own)])

    assert (answer.verdict, answer.reason, answer.late, answer.state) == ("accepted", None, False, "succeeded")
    assert [staging.shown(one).visible for one in (own, other)] == [True, True]
    assert set(staging.listed(holding.job_id)) == {own, other}


def test_complete_v1__takes_them_too(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.put(holding)

    assert staging.ledger.worker.complete_v1(holding, named(artifact_id)) is False
    assert staging.shown(artifact_id).visible


@pytest.mark.parametrize("missing", ["size", "sha256"])
def test_complete__compares_what_the_result_says(staging: Staging, missing: str) -> None:
    """A program in another language may name an artifact by its id alone."""
    holding = take(staging)
    reference = named(staging.put(holding))
    del reference[missing]

    assert staging.ledger.worker.complete(holding, reference).verdict == "accepted"


@pytest.mark.parametrize("schema", ["brokerjobs.artifact/1", "brokerjobs.artifact\\/1", "brokerjobs.artifact\\u002f1"])
def test_complete__sees_a_name_however_it_is_written(staging: Staging, schema: str) -> None:
    """JSON knows more than one way to write a text; only what is no letter is ever written otherwise."""
    holding = take(staging)
    text = f'{{"schema": "{schema}", "id": "{uuid4()}"}}'
    report = calls.Report(holding, text, observed_at=staging.ledger.clock.now, started_at=None)

    (answer,) = staging.ledger.worker.fetch(calls.complete([report]))

    assert (answer.verdict, answer.reason) == ("rejected", "artifact_not_ready")


@pytest.mark.parametrize(
    "result",
    [
        "brokerjobs.artifact/1",
        {"schema": "brokerjobs.artifact/2", "id": "x"},
        {"schema": ["brokerjobs.artifact/1"], "id": "x"},
        {"brokerjobs.artifact/1": "schema"},
        {"schema": "\\u0041"},
        None,
    ],
)
def test_complete__takes_what_is_no_artifact_for_none(staging: Staging, result: object) -> None:
    assert staging.ledger.worker.complete(take(staging), result).verdict == "accepted"


def test_complete__of_a_batch_refuses_the_bad_one_alone(staging: Staging) -> None:
    good, bad, plain = take(staging), take(staging), take(staging)
    results = (named(staging.put(good)), named(uuid4()), {"done": True})
    reports = [staging.ledger.worker.report(*each) for each in zip((good, bad, plain), results, strict=True)]

    answers = staging.ledger.worker.fetch(calls.complete(reports))

    assert [(one.job_id, one.verdict, one.reason) for one in answers] == [
        (good.job_id, "accepted", None),
        (bad.job_id, "rejected", "artifact_not_ready"),
        (plain.job_id, "accepted", None),
    ]


def test_complete__of_a_type_that_is_not_repeatable_is_invalid_and_not_safe_to_retry(staging: Staging) -> None:
    """Its handler had given its result: nothing is unknown, and what it did has been done (decision 0024)."""
    ledger = staging.ledger
    holding = take(staging, "once")
    ledger.worker.start(holding)
    reference = named(uuid4())

    answers = [ledger.worker.complete(holding, reference) for _ in range(2)]

    assert {(one.verdict, one.reason, one.state) for one in answers} == {("rejected", "artifact_not_ready", "failed")}
    assert ledger.producer.record(holding.job_id)["attempts"][0]["safe_to_retry"]["safe"] is False


def test_complete__with_an_unknown_effect_goes_to_review_for_that(staging: Staging) -> None:
    holding = take(staging)
    Effects(staging.ledger.worker).grant(holding)

    answer = staging.ledger.worker.complete(holding, named(uuid4()))

    assert (answer.verdict, answer.reason, answer.state) == ("rejected", "unknown_effect", "review")


def test_complete__of_a_cancelled_job_is_refused_for_that(staging: Staging) -> None:
    holding = take(staging)
    staging.ledger.producer.cancel(holding.job_id)

    answer = staging.ledger.worker.complete(holding, named(uuid4()))

    assert (answer.reason, answer.state) == ("job_cancelled", "cancelled")


def test_late_success__keeps_its_artifacts(staging: Staging) -> None:
    """The attempt was given up, its upload ended afterwards, and nobody has claimed the job since."""
    ledger, holding = staging.ledger, take(staging)
    artifact_id = staging.begun(holding)
    ledger.lose(holding)
    assert staging.ready(artifact_id, holding) == "ready"

    answer = ledger.worker.complete(holding, named(artifact_id))

    assert (answer.verdict, answer.late, answer.state) == ("accepted", True, "succeeded")
    assert staging.listed(holding.job_id) == [artifact_id]
    staging.stays(HOUR)


@pytest.mark.parametrize(("kind", "state"), [("work", "queued"), ("once", "review")])
def test_late_success__that_is_no_good_changes_nothing_but_its_attempt(staging: Staging, kind: str, state: str) -> None:
    ledger, holding = staging.ledger, take(staging, kind)
    ledger.worker.start(holding)
    ledger.lose(holding)
    before = ledger.rows.state(holding.job_id)
    reference = named(uuid4())

    answers = [ledger.worker.complete(holding, reference) for _ in range(2)]

    assert {(one.verdict, one.reason, one.late, one.state) for one in answers} == {
        ("rejected", "artifact_not_ready", True, state)
    }
    after = ledger.rows.state(holding.job_id)
    assert (after.state, after.waiting, after.wait_until) == (before.state, before.waiting, before.wait_until)
    assert events(ledger, holding.job_id).count("result_refused") == 1


def test_resources__of_a_refused_result_are_let_go(staging: Staging) -> None:
    ledger = staging.ledger
    holding = ledger.worker.take(needing(ledger, "account:7"))
    next_in_line = needing(ledger, "account:7")
    assert ledger.worker.claim(next_in_line).verdict != "granted"
    assert holders(ledger, "account:7") == [holding.job_id]

    assert ledger.worker.complete(holding, named(uuid4())).reason == "artifact_not_ready"

    assert holders(ledger, "account:7") == []
    ledger.coordinator.due()
    assert ledger.worker.claim(next_in_line).verdict == "granted"


def test_resources__that_were_taken_since_are_the_reason(staging: Staging) -> None:
    """The job stays where it is, whatever its late result names."""
    ledger = staging.ledger
    holding = ledger.worker.take(needing(ledger, "account:8"))
    ledger.lose(holding)
    ledger.worker.take(needing(ledger, "account:8"))

    answer = ledger.worker.complete(holding, named(uuid4()))

    assert (answer.reason, answer.state) == ("resource_taken", "queued")


def _lost_and_kept(staging: Staging, reference: Callable[[Holding], dict[str, Any]]) -> Holding:
    """A job that failed because its last attempt was lost, whose success came afterwards."""
    ledger = staging.ledger
    ledger.declare("work", attempts=1)
    holding = take(staging)
    result = reference(holding)
    until = ledger.lose(holding).until
    assert until is not None
    ledger.clock.set(until)
    assert ledger.coordinator.due()[holding.job_id] == "failed"
    assert ledger.worker.complete(holding, result).reason == "job_failed"
    return holding


def test_adopt__makes_the_artifacts_of_a_kept_success_visible(staging: Staging) -> None:
    kept: list[UUID] = []

    def result(holding: Holding) -> dict[str, Any]:
        kept.append(staging.put(holding))
        return named(kept[0])

    holding = _lost_and_kept(staging, result)
    assert staging.listed(holding.job_id) == []

    assert staging.ledger.operator.adopt(holding)["verdict"] == "adopted"
    assert staging.listed(holding.job_id) == kept


def test_adopt__refuses_a_kept_success_whose_artifact_is_no_good(staging: Staging) -> None:
    holding = _lost_and_kept(staging, lambda holding: named(staging.begun(holding)))

    answer = staging.ledger.operator.adopt(holding)

    assert (answer["verdict"], answer["state"]) == ("refused", "failed")
    assert "its upload has not ended" in answer["why"]


def in_review(staging: Staging) -> tuple[Holding, UUID]:
    """A job in review for an effect, whose result, kept as evidence, names an artifact."""
    holding = take(staging)
    artifact_id = staging.put(holding)
    Effects(staging.ledger.worker).grant(holding)
    assert staging.ledger.worker.complete(holding, named(artifact_id)).state == "review"
    return holding, artifact_id


def test_review__that_ends_with_the_result_makes_its_artifacts_visible(staging: Staging) -> None:
    holding, artifact_id = in_review(staging)
    assert staging.listed(holding.job_id) == []

    answer = staging.ledger.operator.resolve(
        holding.job_id, "happened", result=json.dumps(named(artifact_id)), checked=True
    )

    assert (answer["verdict"], answer["state"]) == ("decided", "succeeded")
    assert staging.listed(holding.job_id) == [artifact_id]
    assert staging.acknowledge(artifact_id).verdict == "acknowledged"


def test_review__is_not_decided_with_a_result_that_is_no_good(staging: Staging) -> None:
    holding, _ = in_review(staging)

    with pytest.raises(psycopg.Error, match="the ledger does not know"):
        staging.ledger.operator.resolve(holding.job_id, "happened", result=json.dumps(named(uuid4())), checked=True)

    assert staging.ledger.rows.state(holding.job_id).state == "review"


def test_reconciler__with_a_result_that_is_no_good_leaves_it_to_a_person(staging: Staging) -> None:
    holding, artifact_id = in_review(staging)
    effects = Effects(staging.ledger.worker)
    (review,) = effects.ask()

    answer = effects.found(review, **{"as": "happened", "result": named(uuid4()), "reference": "7"})

    assert (answer.verdict, answer.state) == ("noted", "review")
    staging.ledger.clock.advance(HOUR)
    (review,) = effects.ask()
    found = effects.found(review, **{"as": "happened", "result": named(artifact_id), "reference": "7"})
    assert (found.verdict, found.state) == ("decided", "succeeded")
    assert staging.listed(holding.job_id) == [artifact_id]
