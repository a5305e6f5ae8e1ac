"""What the sweeper may delete, each to the millisecond, and what it may not: nothing that may still be accepted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from psycopg import errors

from brokerjobs.ledger import sweeping, ticks
from tests.ledger.effects import Effects
from tests.ledger.staging import DAY, HOUR, MINUTE, WEEK, Staging, named, sha256_of

if TYPE_CHECKING:
    from brokerjobs.ledger.calls import Holding
    from tests.ledger.ledger_driver import Ledger

INVALID = {"class": "invalid", "classified": True, "type": "E", "message": "no"}


@pytest.fixture
def staging(ledger: Ledger) -> Staging:
    """The artifacts of a test, with a lease of an hour; more time passes than the months of events that set-up made."""
    ledger.coordinator.sql("select brokerjobs.make_partitions(48)")
    ledger.declare("work", lease=timedelta(hours=1))
    return Staging(ledger)


def take(staging: Staging, kind: str = "work") -> Holding:
    """A running attempt."""
    return staging.ledger.worker.take(staging.ledger.submit(kind))


# Limits are the sweeper's own, whatever those were under which an artifact was looked at before.


@pytest.mark.parametrize("why", ["acknowledged", "not_accepted", "incomplete"])
def test_limit__that_is_made_shorter_counts_within_an_hour(staging: Staging, why: str) -> None:
    long, short = timedelta(days=30), timedelta(minutes=1)
    match why:
        case "acknowledged":
            _, artifact_id = staging.handed_over()
            staging.acknowledge(artifact_id)
        case "not_accepted":
            holding = take(staging)
            artifact_id = staging.put(holding)
            staging.ledger.worker.fail(holding)
        case _:
            holding = take(staging)
            artifact_id = staging.begun(holding)
            staging.ledger.worker.fail(holding)
    assert staging.sweep(limits=sweeping.Limits(incomplete=long, rejected=long, grace=long)) == {}

    staging.ledger.clock.advance(HOUR)
    shorter = sweeping.Limits(incomplete=short, rejected=short, grace=short)
    assert staging.sweep(limits=shorter) == {artifact_id: why}


def renewed(staging: Staging, holding: Holding, seconds: float) -> None:
    """Lets time pass for an attempt that lives."""
    for _ in range(int(seconds / HOUR * 2)):
        staging.ledger.clock.advance(HOUR / 2)
        staging.ledger.worker.renew(holding)


# Uploads that never ended.


def test_incomplete__goes_an_hour_after_it_began_once_its_attempt_cannot_be_accepted(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.begun(holding)
    staging.ledger.worker.fail(holding)

    staging.at_limit(HOUR, artifact_id, "incomplete")
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.removing and shown.removing.why) == ("discarded", "incomplete")
    assert staging.ready(artifact_id, holding) == "discarded"


def test_incomplete__of_the_result_goes_too(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.begun(holding)
    staging.ledger.worker.complete(holding)

    staging.at_limit(HOUR, artifact_id, "incomplete")


def test_incomplete__of_a_running_attempt_stays_however_long_it_takes(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.begun(holding)
    for _ in range(4):
        renewed(staging, holding, HOUR)
        assert staging.sweep() == {}

    assert staging.ready(artifact_id, holding) == "ready"
    assert staging.ledger.worker.complete(holding, named(artifact_id)).verdict == "accepted"


def test_incomplete__of_a_lost_attempt_has_an_hour_from_its_loss(staging: Staging) -> None:
    """It may still end, and be accepted as a late success."""
    holding = take(staging)
    artifact_id = staging.begun(holding)
    renewed(staging, holding, 2 * HOUR)
    staging.ledger.lose(holding)

    staging.at_limit(HOUR, artifact_id, "incomplete")


def test_discarded__goes_at_once(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.begun(holding)
    staging.discard(artifact_id, holding)

    assert staging.sweep() == {artifact_id: "incomplete"}


# Outputs of attempts that were not accepted.


@pytest.mark.parametrize("how", ["failed", "newer", "gone", "cancelled", "refused", "decided", "gave_up", "rejected"])
def test_not_accepted__goes_a_day_after_it_has_become_impossible(staging: Staging, how: str) -> None:
    ledger = staging.ledger
    holding = take(staging, "once" if how in {"decided", "gave_up"} else "work")
    artifact_id = staging.put(holding)
    match how:
        case "failed":
            ledger.worker.fail(holding)
        case "newer":
            ledger.lose(holding)
            ledger.ring_again(holding.job_id)
            ledger.worker.take(holding.job_id)
        case "gone":
            ledger.worker.fail(holding, INVALID)
        case "cancelled":
            ledger.producer.cancel(holding.job_id)
            ledger.worker.complete(holding, named(artifact_id))
        case "refused":
            ledger.worker.complete(holding, [named(artifact_id), named(uuid4())])
        case "decided":
            ledger.worker.start(holding)
            ledger.lose(holding)
            ledger.operator.resolve(holding.job_id, "happened", result='"no word of it"', checked=True)
        case "gave_up":
            ledger.worker.start(holding)
            ledger.worker.fail(holding, {"class": "unsafe", "classified": True, "type": "E", "message": "no"})
            ledger.operator.resolve(holding.job_id, "give_up")
        case _:
            ledger.lose(holding)
            ledger.ring_again(holding.job_id)
            ledger.worker.complete(ledger.worker.take(holding.job_id))
            assert ledger.worker.complete(holding, named(artifact_id)).reason == "job_succeeded"

    staging.at_limit(DAY, artifact_id, "not_accepted")
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.sha256) == ("discarded", sha256_of())
    assert staging.acknowledge(artifact_id).verdict == "not_accepted"


def test_not_accepted__goes_though_its_staged_copy_is_another(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.put(holding)
    staging.ledger.worker.fail(holding)
    assert staging.mismatch(artifact_id) == "noted"

    staging.at_limit(DAY, artifact_id, "not_accepted")
    assert staging.shown(artifact_id).state == "discarded"


def test_running__keeps_its_outputs(staging: Staging) -> None:
    holding = take(staging)
    staging.put(holding)
    for _ in range(3):
        renewed(staging, holding, HOUR)
        assert staging.sweep() == {}
    staging.ledger.clock.advance(HOUR - 1e-3)
    assert staging.sweep() == {}


def test_lost__keeps_its_outputs_while_its_late_success_would_be_accepted(staging: Staging) -> None:
    """The job waits for a doorbell that nobody answers."""
    holding = take(staging)
    artifact_id = staging.put(holding)
    staging.ledger.lose(holding)
    staging.ledger.ring_again(holding.job_id)
    staging.stays(DAY, DAY, WEEK)

    assert staging.ledger.worker.complete(holding, named(artifact_id)).verdict == "accepted"


def test_review__keeps_the_outputs_of_an_attempt_that_may_still_succeed(staging: Staging) -> None:
    holding = take(staging, "once")
    artifact_id = staging.put(holding)
    staging.ledger.worker.start(holding)
    assert staging.ledger.lose(holding).state == "review"
    staging.stays(DAY, WEEK, WEEK)

    answer = staging.ledger.worker.complete(holding, named(artifact_id))
    assert (answer.verdict, answer.late) == ("accepted", True)


def test_review__keeps_what_a_person_may_take_as_the_result(staging: Staging) -> None:
    """The attempt has reported, and its result was refused."""
    holding = take(staging)
    artifact_id = staging.put(holding)
    Effects(staging.ledger.worker).grant(holding)
    staging.ledger.worker.complete(holding, named(artifact_id))
    staging.stays(DAY, WEEK, WEEK)

    staging.ledger.operator.resolve(holding.job_id, "happened", result=json.dumps(named(artifact_id)), checked=True)
    staging.at_limit(WEEK, artifact_id, "unacknowledged")


def lost_last(staging: Staging) -> tuple[Holding, UUID]:
    """A job that failed because its last attempt was lost; that one had an output."""
    ledger = staging.ledger
    ledger.declare("work", attempts=1, lease=timedelta(hours=1))
    holding = take(staging)
    artifact_id = staging.put(holding)
    until = ledger.lose(holding).until
    assert until is not None
    ledger.clock.set(until)
    assert ledger.coordinator.due()[holding.job_id] == "failed"
    return holding, artifact_id


def test_adoptable__keeps_its_outputs(staging: Staging) -> None:
    holding, artifact_id = lost_last(staging)
    assert staging.ledger.worker.complete(holding, named(artifact_id)).reason == "job_failed"
    staging.stays(DAY, WEEK, 4 * WEEK)

    assert staging.ledger.operator.adopt(holding)["verdict"] == "adopted"
    staging.at_limit(WEEK, artifact_id, "unacknowledged")


def test_adoptable__keeps_its_outputs_before_its_success_has_come(staging: Staging) -> None:
    holding, artifact_id = lost_last(staging)
    staging.stays(DAY, WEEK)

    assert staging.ledger.worker.complete(holding, named(artifact_id)).reason == "job_failed"
    assert staging.ledger.operator.adopt(holding)["verdict"] == "adopted"


def test_adoptable__keeps_its_outputs_while_a_replay_waits(staging: Staging) -> None:
    """Until it is claimed: it may fail without another attempt, and the success is the last one's again."""
    holding, artifact_id = lost_last(staging)
    staging.ledger.worker.complete(holding, named(artifact_id))
    assert staging.ledger.operator.replay(holding.job_id, deadline=timedelta(days=30)) == ["replayed"]
    staging.stays(DAY, WEEK)

    staging.ledger.worker.take(holding.job_id)
    staging.ledger.clock.advance(HOUR)  # which it may take until it is looked at again
    staging.at_limit(DAY, artifact_id, "not_accepted")


def test_lost_last__that_failed_after_all_is_not_adoptable(staging: Staging) -> None:
    holding, artifact_id = lost_last(staging)
    staging.ledger.worker.fail(holding)

    staging.at_limit(DAY, artifact_id, "not_accepted")


def test_replayed__accepts_nothing_of_before(staging: Staging) -> None:
    ledger, holding = staging.ledger, take(staging)
    artifact_id = staging.put(holding)
    ledger.worker.fail(holding, INVALID)
    assert ledger.operator.replay(holding.job_id) == ["replayed"]

    staging.at_limit(DAY, artifact_id, "not_accepted")


# Outputs that are part of a result.


def test_acknowledged__goes_after_the_grace_time(staging: Staging) -> None:
    _, artifact_id = staging.handed_over()
    staging.stays(DAY)
    staging.acknowledge(artifact_id)

    staging.at_limit(HOUR, artifact_id, "acknowledged")
    assert staging.shown(artifact_id).state == "acknowledged"


def test_acknowledged__goes_before_its_time_limit_has_anything_to_say(staging: Staging) -> None:
    _, artifact_id = staging.handed_over(keep_for=0.0)
    staging.acknowledge(artifact_id)

    staging.at_limit(HOUR, artifact_id, "acknowledged")


@pytest.mark.parametrize("seconds", [None, 2 * DAY, 30 * DAY])
def test_unacknowledged__goes_at_its_time_limit_and_says_so(staging: Staging, seconds: float | None) -> None:
    _, artifact_id = staging.handed_over(keep_for=seconds)
    limit = seconds or WEEK
    assert staging.shown(artifact_id).expires_at == staging.ledger.clock.after(limit)

    staging.at_limit(limit, artifact_id, "unacknowledged")
    shown = staging.shown(artifact_id)
    assert (shown.state, shown.expired_at, shown.sha256) == (
        "expired_unacknowledged",
        staging.ledger.clock.now,
        sha256_of(),
    )


def test_unacknowledged__counts_from_the_jobs_end(staging: Staging) -> None:
    holding = take(staging)
    artifact_id = staging.put(holding)
    renewed(staging, holding, 2 * HOUR)
    staging.ledger.worker.complete(holding, named(artifact_id))

    staging.at_limit(WEEK, artifact_id, "unacknowledged")


def test_mismatch__is_kept_as_long_and_stays_one(staging: Staging) -> None:
    _, artifact_id = staging.handed_over()
    staging.mismatch(artifact_id)

    staging.at_limit(WEEK, artifact_id, "mismatch")
    assert staging.shown(artifact_id).state == "hash_mismatch"


# How it is done.


def test_what_was_given__is_given_again_until_it_is_gone(staging: Staging) -> None:
    """The sweeper may die between any two of its steps."""
    holding = take(staging)
    artifact_id = staging.begun(holding)
    staging.discard(artifact_id, holding)
    assert [staging.sweep(), staging.sweep()] == [{artifact_id: "incomplete"}, {}]
    staging.ledger.clock.advance(MINUTE)
    assert staging.sweep() == {artifact_id: "incomplete"}

    staging.removed(artifact_id)
    staging.ledger.clock.advance(MINUTE)
    staging.removed(artifact_id)

    assert staging.shown(artifact_id).removed_at == staging.ledger.clock.after(-MINUTE)
    staging.stays(MINUTE, DAY)


def test_removed__is_taken_only_of_what_was_to_be_removed(staging: Staging) -> None:
    holding = take(staging)
    begun, ready = staging.begun(holding, "a"), staging.put(holding, "b")
    staging.removed(begun, ready, uuid4())

    assert [staging.shown(one).removed_at for one in (begun, ready)] == [None, None]


def test_batches__are_bounded_and_the_oldest_come_first(staging: Staging) -> None:
    holding = take(staging)
    discarded = [staging.begun(holding, str(number)) for number in range(5)]
    for artifact_id in discarded:
        staging.discard(artifact_id, holding)
        staging.ledger.clock.advance(1)

    assert [set(staging.sweep(2)) for _ in range(4)] == [
        set(discarded[:2]),
        set(discarded[2:4]),
        set(discarded[4:]),
        set(),
    ]


def test_batches__are_not_filled_by_what_stays(staging: Staging) -> None:
    """Ten times as many are looked at, and those are looked at again later."""
    holding = take(staging)
    for number in range(25):
        staging.put(holding, str(number))
    due = staging.begun(holding)
    staging.discard(due, holding)

    assert [staging.sweep(1) for _ in range(3)] == [{}, {}, {due: "incomplete"}]


def test_stores__are_swept_by_their_own(staging: Staging) -> None:
    holding = take(staging)
    other = staging.begun(holding, store="s3://another")
    staging.discard(other, holding)

    assert staging.sweep() == {}


def test_sweeper__leaves_what_somebody_holds(staging: Staging) -> None:
    ledger, holding = staging.ledger, take(staging)
    artifact_id = staging.put(holding)
    ledger.worker.fail(holding, INVALID)
    staging.sweep()
    ledger.clock.advance(DAY)
    other = ledger.open("owner")
    for held in (
        f"select from brokerjobs.job_state where job_id = '{holding.job_id}' for update",
        f"select from brokerjobs.artifact where id = '{artifact_id}' for update",
    ):
        other.begin()
        other.connection.execute(held.encode())
        assert staging.sweep() == {}
        other.rollback()

    assert staging.sweep() == {artifact_id: "not_accepted"}


def test_sweeper__that_does_not_lead_is_given_nothing(staging: Staging) -> None:
    holding = take(staging)
    staging.discard(staging.begun(holding), holding)
    service = f"sweeper of {staging.store}"
    other = staging.ledger.open("coordinator")
    other.lead(service, 60)

    by = staging.ledger.coordinator
    query = sweeping.artifacts_to_remove(ticks.Candidacy(service, by.process, 60), staging.store, sweeping.Limits(), 9)

    assert by.fetch(query) == [sweeping.ToRemove(False, None, None, None)]


# Objects that a look into the store has found.


def known(staging: Staging, *paths: str, store: str | None = None) -> list[str]:
    """What the ledger says of objects."""
    query = sweeping.artifacts_known(store or staging.store, paths, [7] * len(paths))
    return [row.verdict for row in staging.ledger.coordinator.fetch(query)]


def test_known__is_every_object_that_has_a_row(staging: Staging) -> None:
    holding = take(staging)
    begun, discarded = staging.stage(holding, "a"), staging.stage(holding, "b")
    staging.discard(discarded.id, holding)
    assert begun.path
    assert discarded.path

    assert known(staging, begun.path, discarded.path) == ["known", "known"]
    assert known(staging, begun.path, store="s3://its-name-of-before") == ["known"]


def test_known__says_of_what_came_back_that_it_is_to_go(staging: Staging) -> None:
    """A paused worker's upload ended after the sweep."""
    holding = take(staging)
    staged = staging.stage(holding)
    staging.discard(staged.id, holding)
    staging.sweep()
    staging.removed(staged.id)
    assert staged.path

    assert known(staging, staged.path) == ["removed"]


def orphans(staging: Staging, after: float, limit: int = 10) -> list[str]:
    """Orphans that may go."""
    by = staging.ledger.coordinator
    candidacy = ticks.Candidacy(f"sweeper of {staging.store}", by.process, 60)
    rows = by.fetch(sweeping.orphans_to_remove(candidacy, staging.store, timedelta(seconds=after), limit))
    return [row.path for row in rows if row.path is not None]


def test_orphans__are_recorded_and_go_only_when_that_is_asked_for(staging: Staging) -> None:
    strange = ["x", f"{uuid4()}/{uuid4()}/{uuid4()}", "a" * 5000]
    assert known(staging, *strange) == ["orphan"] * 3
    staging.ledger.clock.advance(DAY - 1e-3)
    assert known(staging, "x") == ["orphan"]
    assert orphans(staging, DAY) == []
    staging.ledger.clock.advance(1e-3)

    assert sorted(orphans(staging, DAY)) == sorted(strange)
    assert len(orphans(staging, DAY, limit=2)) == 2
    assert staging.sweep() == {}
    staging.ledger.coordinator.fetch(sweeping.orphans_removed(staging.store, strange[:2]))
    assert orphans(staging, DAY) == strange[2:]


def test_orphans__that_come_again_are_new_ones(staging: Staging) -> None:
    known(staging, "x")
    staging.ledger.clock.advance(DAY)
    staging.ledger.coordinator.fetch(sweeping.orphans_removed(staging.store, ["x"]))
    assert known(staging, "x") == ["orphan"]

    assert orphans(staging, DAY) == []
    staging.ledger.clock.advance(DAY)
    assert orphans(staging, DAY) == ["x"]


def test_orphans__are_listed_page_by_page(staging: Staging) -> None:
    reader = staging.ledger.open("reader")
    elsewhere = f"{staging.store}-2"
    known(staging, "later-by-name", "b")
    staging.ledger.clock.advance(HOUR)
    known(staging, "b", "a", *(f"{number:02}" for number in range(5)))
    staging.ledger.coordinator.fetch(sweeping.artifacts_known(elsewhere, ["x"], [7]))
    staging.ledger.coordinator.fetch(sweeping.orphans_removed(staging.store, ["a"]))

    def pages(store: str | None, limit: int) -> list[sweeping.Orphan]:
        found: list[sweeping.Orphan] = []
        for _ in range(20):
            page = reader.fetch(sweeping.list_orphans(store, found[-1] if found else None, limit))
            found += page
            if len(page) < limit:
                break
        return found

    here = pages(staging.store, 2)
    assert {one.path for one in here[:2]} == {"b", "later-by-name"}, "the first seen first"
    assert sorted(one.path for one in here[2:]) == [f"{number:02}" for number in range(5)]
    assert here == pages(staging.store, 100)
    (again,) = [one for one in here if one.path == "b"]
    assert again.last_seen_at - again.first_seen_at == timedelta(hours=1)
    both = [one for one in pages(None, 3) if one.store in {staging.store, elsewhere}]
    assert both == [*here, *pages(elsewhere, 1)]
    assert [(one.path, one.size) for one in both[-1:]] == [("x", 7)]
    assert pages("s3://none", 1) == []


def test_orphans__are_kept_for_an_hour_at_least(staging: Staging) -> None:
    with pytest.raises(errors.InvalidParameterValue):
        orphans(staging, HOUR - 1)


def test_overview__counts_what_is_to_be_looked_at(own_ledger: Ledger) -> None:
    staging = Staging(own_ledger)

    def seen() -> dict[str, object]:
        ((overview,),) = staging.ledger.owner.execute(
            "select brokerjobs.overview(%s, '1 minute') -> 'artifacts'", [staging.ledger.place.namespace]
        )
        assert isinstance(overview, dict)
        return overview  # pyright: ignore[reportUnknownVariableType]

    nothing = {"hash_mismatch": 0, "expired_unacknowledged": 0, "example": None, "orphans": 0}
    assert seen() == nothing
    _, other = staging.handed_over("a", keep_for=30 * DAY)
    _, left = staging.handed_over("b")
    staging.mismatch(other)
    known(staging, "x")
    staging.ledger.clock.advance(WEEK)
    assert staging.sweep() == {left: "unacknowledged"}

    assert seen() == {"hash_mismatch": 1, "expired_unacknowledged": 1, "example": str(other), "orphans": 1}
    staging.ledger.clock.advance(DAY)
    assert seen() == {"hash_mismatch": 1, "expired_unacknowledged": 0, "example": str(other), "orphans": 1}
