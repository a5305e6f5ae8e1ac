"""The explainer: what no living worker can run says why within a tick, and changes by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from brokerjobs.coordinator.explainer import NAME, Explainer, changes
from brokerjobs.coordinator.service import LED_ELSEWHERE
from brokerjobs.ledger import inquiries, placing, services
from brokerjobs.rules import capabilities, needs
from brokerjobs.rules.needs import AtLeast, Equal, Has
from tests.coordinator.stage import PERIODS, candidacy, process

if TYPE_CHECKING:
    from uuid import UUID

    from brokerjobs.ledger.calls import ProcessIdentity
    from tests.coordinator.stage import Stage

LINUX = {"os": "linux", "memory": "16GiB"}
GPU = (Equal("os", "linux"), Equal("gpu", "a100"))


def explainer(staged: Stage) -> Explainer:
    return Explainer(staged.coordinator, candidacy(NAME), PERIODS)


async def need(staged: Stage, *wanted: needs.Need, kind: str = "gpu", placement: timedelta | None = None) -> None:
    """Registers a type with needs."""
    await staged.register(kind, needs=wanted, placement_deadline=placement)


async def beat(
    staged: Stage,
    by: ProcessIdentity,
    has: dict[str, str] | None,
    *,
    state: str = "online",
    types: tuple[str, ...] = ("work", "gpu"),
    **detail: Any,
) -> None:
    if has is not None:
        detail["capabilities"] = capabilities.of(has).as_data()
    said = services.Heartbeat(by, "worker", staged.namespace, types, [staged.route()], state, datetime.now(UTC), detail)
    await staged.worker.fetch(services.heartbeat(said))


async def waiting(staged: Stage, job: UUID) -> tuple[str | None, str | None]:
    """What a job waits for as it is shown, and the report's text."""
    (standing,) = await staged.producer.fetch(inquiries.status([job]))
    detail: dict[str, Any] = standing.wait_detail or {}
    return standing.waiting, detail["report"]["text"] if "report" in detail else None


async def test_explainer__says_every_unmet_need_and_the_nearest_miss(staged: Stage) -> None:
    await need(staged, *GPU)
    await beat(staged, process("a"), LINUX)
    await beat(staged, process("b"), {"os": "darwin"})
    (job,) = await staged.submit(kind="gpu")
    assert await waiting(staged, job) == ("delivery", None)

    assert await explainer(staged).run_once() == PERIODS.tick

    assert await waiting(staged, job) == ("placement", "0 of 2 workers: 2 lack gpu, 1 os is darwin, not linux")
    detail = await staged.value("select brokerjobs.record(%s) #> '{waiting,detail}'", job)
    assert detail["report"]["nearest"] == {"worker": "a", "unmet": ["lacks gpu"]}
    assert detail["since"] is not None


async def test_explainer__changes_by_itself_when_a_worker_comes_and_goes(staged: Stage) -> None:
    await need(staged, *GPU)
    (job,) = await staged.submit(kind="gpu")
    service, able = explainer(staged), process("able")
    await service.run_once()
    assert await waiting(staged, job) == ("placement", "no worker is alive")

    await beat(staged, able, {**LINUX, "gpu": "a100"})
    await service.run_once()
    assert await waiting(staged, job) == ("delivery", None)

    await beat(staged, able, {**LINUX, "gpu": "a100"}, state="draining")
    await service.run_once()
    assert await waiting(staged, job) == ("placement", "1 of 1 worker qualifies, about to stop")

    await beat(staged, able, {**LINUX, "gpu": "a100"}, state="stopped")
    await service.run_once()
    assert await waiting(staged, job) == ("placement", "no worker is alive")


async def test_explainer__a_worker_that_died_counts_no_more(staged: Stage) -> None:
    await beat(staged, process("dead"), LINUX, heartbeat_seconds=1)
    (job,) = await staged.submit()
    service = explainer(staged)
    await service.run_once()
    assert await waiting(staged, job) == ("delivery", None)
    await staged.sql("update brokerjobs.worker set heartbeat_at = clock_timestamp() - interval '6 seconds'")

    await service.run_once()

    assert await waiting(staged, job) == ("placement", "no worker is alive")


async def test_explainer__a_worker_of_before_serves_the_routes_that_it_says(staged: Stage) -> None:
    """The previous release tells no capabilities, and consumes neither routes of needs nor lanes."""
    await need(staged, *GPU)
    await beat(staged, process("old"), None)
    (plain,) = await staged.submit()
    (job,) = await staged.submit(kind="gpu")

    await explainer(staged).run_once()

    assert await waiting(staged, plain) == ("delivery", None)
    assert (await waiting(staged, job))[0] == "placement"
    reports = "select count(*) from brokerjobs.route_type where route = %s and unplaceable_since is not null"
    high = f"{staged.route()}:high"
    assert await staged.value(reports, high) == 0  # nobody has used that lane: it is not wanted


async def test_explainer__a_worker_of_before_serves_no_lane(staged: Stage) -> None:
    await beat(staged, process("old"), None)
    await staged.sql("update brokerjobs.route set wanted = true where lane = 'high'")

    await explainer(staged).run_once()

    stuck = await staged.sql("select route from brokerjobs.route_type where unplaceable_since is not null")
    assert stuck == [{"route": f"{staged.route()}:high"}]


async def test_explainer__a_worker_without_the_handler_does_not_qualify(staged: Stage) -> None:
    await beat(staged, process("other"), LINUX, types=("gpu",))
    (job,) = await staged.submit()

    await explainer(staged).run_once()

    assert await waiting(staged, job) == (
        "placement",
        f"0 of 1 worker: 1 has no handler for {staged.namespace}/work",
    )


async def test_explainer__writes_only_what_has_changed_and_asks_for_no_job(staged: Stage) -> None:
    await need(staged, *GPU)
    await staged.submit(50, kind="gpu")
    service = explainer(staged)
    await service.run_once()
    before = await staged.value("select array_agg(xmin::text order by route, type) from brokerjobs.route_type")

    await service.run_once()

    assert await staged.value("select array_agg(xmin::text order by route, type) from brokerjobs.route_type") == before


async def test_explainer__ends_what_no_worker_could_run_in_time_with_the_last_report(staged: Stage) -> None:
    await need(staged, *GPU, placement=timedelta(seconds=30))
    await beat(staged, process("a"), LINUX)
    (job,) = await staged.submit(kind="gpu")
    (other,) = await staged.submit()
    service = explainer(staged)
    await service.run_once()
    assert (await staged.status(job)).state == "queued"
    await staged.sql("update brokerjobs.route_type set unplaceable_since = unplaceable_since - interval '1 minute'")
    await service.run_once()
    assert (await staged.status(job)).state == "queued"  # it was submitted less than its deadline ago
    await staged.sql("update brokerjobs.job_state set rung_at = clock_timestamp() - interval '31 seconds'")

    await service.run_once()

    ended = await staged.status(job)
    assert (ended.state, ended.failure_class) == ("failed", "policy")
    record = await staged.value("select brokerjobs.record(%s)", job)
    assert record["failure"]["reason"] == "unplaceable: 0 of 1 worker: 1 lacks gpu"
    [event] = [one for one in record["events"] if one["kind"] == "unplaceable"]
    assert event["detail"]["report"]["nearest"] == {"worker": "a", "unmet": ["lacks gpu"]}
    assert (await staged.status(other)).state == "queued"


async def test_explainer__a_job_that_a_worker_may_still_take_is_not_ended(staged: Stage) -> None:
    """What is decided is decided under the job's own row, by what holds then."""
    await need(staged, *GPU, placement=timedelta(seconds=30))
    (job,) = await staged.submit(kind="gpu")
    service = explainer(staged)
    await service.run_once()
    long_ago = "update brokerjobs.{} - interval '1 minute'"
    await staged.sql(long_ago.format("route_type set unplaceable_since = unplaceable_since"))
    await staged.sql(long_ago.format("job_state set rung_at = clock_timestamp()"))
    await beat(staged, process("able"), {**LINUX, "gpu": "a100"})

    await service.run_once()

    assert (await staged.status(job)).state == "queued"
    assert (await staged.coordinator.fetch(placing.end_unplaceable(None, 100)))[0].ended == 0


async def test_explainer__walks_on_through_many_jobs_in_bounded_steps(staged: Stage) -> None:
    await need(staged, *GPU, placement=timedelta(seconds=30))
    jobs = await staged.submit(5, kind="gpu")
    await explainer(staged).run_once()
    await staged.sql("update brokerjobs.route_type set unplaceable_since = clock_timestamp() - interval '1 minute'")
    await staged.sql("update brokerjobs.job_state set rung_at = clock_timestamp() - interval '1 minute'")

    first = (await staged.coordinator.fetch(placing.end_unplaceable(None, 3)))[0]
    second = (await staged.coordinator.fetch(placing.end_unplaceable(first.last, 3)))[0]

    assert [(first.ended, first.last), (second.ended, second.last)] == [(3, sorted(jobs)[2]), (2, None)]


async def test_explainer__a_worker_that_comes_is_asked_for_what_was_parked(staged: Stage) -> None:
    service = explainer(staged)
    await service.run_once()
    (job,) = await staged.submit()
    (other,) = await staged.submit(kind="work")
    for one in (job, other):
        assert (await staged.claim(one, "another")).verdict == "no_handler"
    later = "select wait_until > clock_timestamp() from brokerjobs.job_state where job_id = %s"
    await beat(staged, process("unable"), LINUX, types=("gpu",))
    await service.run_once()
    assert await staged.value(later, job) is True

    await beat(staged, process("able"), LINUX, types=("work",))
    await service.run_once()

    assert [await staged.value(later, one) for one in (job, other)] == [False, False]


async def test_explainer__works_on_nothing_while_another_leads(staged: Stage) -> None:
    await explainer(staged).run_once()

    assert await explainer(staged).run_once() == LED_ELSEWHERE


def test_changes__of_200_routes_and_50_workers_compares_each_need_once_a_capability() -> None:
    """Twenty kinds of workers, 200 sets of needs; said again, nothing has changed."""
    workers = [
        {
            "name": f"w{n}",
            "namespace": "shop",
            "types": [f"t{m}" for m in range(200)],
            "routes": [],
            "state": "online",
            "capabilities": capabilities.of(
                {"os": "linux", "gpu": f"g{n % 20}", "memory": f"{n % 20 + 1}GiB"}
            ).as_data(),
            "free": 1,
        }
        for n in range(50)
    ]
    routes = [
        {
            "route": f"shop.q.default.{m}",
            "namespace": "shop",
            "type": f"t{m}",
            "needs": needs.as_data(
                [Equal("gpu", f"g{m % 25}"), AtLeast("memory", f"{m % 30 + 1}GiB"), Has("set", f"s{m}")]
            ),
            "report": None,
        }
        for m in range(200)
    ]

    said = list(changes(workers, routes))

    assert len(said) == 200
    assert said[0].report is not None
    assert said[0].report["text"] == "0 of 50 workers: 47 gpu is not g0, 50 lack set s0"
    again = [{**route, "report": one.report} for route, one in zip(routes, said, strict=True)]
    assert list(changes(workers, again)) == []
