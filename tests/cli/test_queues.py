"""`brokerjobs queues`, `brokerjobs workers`, `brokerjobs jobs explain`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from uuid_utils.compat import uuid7

from brokerjobs.cli.moments import rfc3339
from brokerjobs.coordinator.explainer import changes
from brokerjobs.ledger import calls, placing, services
from brokerjobs.rules import capabilities
from brokerjobs.rules.needs import AtLeast, Equal, Exclusive, OneOf
from tests.ledger import needing

if TYPE_CHECKING:
    from tests.cli.command import Command
    from tests.ledger.ledger_driver import Ledger


def beat(
    ledger: Ledger, name: str, state: str = "online", *, types: tuple[str, ...] = ("work", "gpu"), **has: str
) -> None:
    """A worker's heartbeat."""
    process = calls.ProcessIdentity(uuid7(), name, "host", 1)
    detail: dict[str, Any] = {
        "capabilities": capabilities.of(has).as_data(),
        "slots": {"task": 20},
        "running": 3,
        "consuming": [ledger.place.route()],
    }
    said = services.Heartbeat(
        process,
        "worker",
        ledger.place.namespace,
        types,
        (ledger.place.route(),),
        state,
        ledger.clock.now + timedelta(seconds=2),
        detail,
    )
    ledger.worker.fetch(services.heartbeat(said))


def explain_all(ledger: Ledger) -> None:
    """A tick of the explainer."""
    workers, routes = ledger.coordinator.sql("select * from brokerjobs.placement()")[0]
    ledger.coordinator.fetch(placing.explained(list(changes(workers, routes))))


def test_pause_and_resume__say_what_they_did_and_ring_what_was_parked(operator: Command, ledger: Ledger) -> None:
    queue = f"{ledger.place.namespace}/default"
    job = ledger.submit(rung=True)

    told = ("queues", "pause", queue, "--reason", "the disk is full", "--by", "ann")
    paused = operator(*told, "--until", "2h", "-o", "json").json()

    assert (paused["schema"], paused["queue"], paused["verdict"]) == ("brokerjobs.pause/1", queue, "paused")
    assert paused["until"] is not None
    page = operator("jobs", "show", str(job)).ok().out
    assert "queued, waits for pause" in page
    assert "ann paused it" in page
    assert "its queue default" in page
    assert "is paused already, by ann" in operator(*told).fails(7, "the disk is full", "brokerjobs queues resume")
    resumed = operator("queues", "resume", queue, "--by", "bob", "-o", "json").json()
    assert (resumed["schema"], resumed["verdict"], resumed["by"]) == ("brokerjobs.resume/1", "resumed", "ann")
    assert operator("queues", "resume", queue).ok().out == f"queue {queue} is not paused\n"


def test_list_and_show__say_what_waits_who_serves_and_who_paused(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    ledger.declare("gpu", queue="big", needs=(Equal("gpu", "a100"),))
    ledger.submit(rung=True)
    ledger.worker.take(ledger.submit(rung=True))
    ledger.submit("gpu", rung=True)
    beat(ledger, "plain", os="linux")
    explain_all(ledger)
    operator("queues", "pause", f"{place}/default", "--reason", "the disk is full", "--by", "ann").ok()

    big, default = operator("queues", "list", "--namespace", place, "-o", "json").lines()

    assert (default["schema"], default["waiting"], default["running"]) == ("brokerjobs.queue/1", 1, 1)
    assert default["paused"]["reason"] == "the disk is full"
    [route] = big["routes"]
    assert (route["waiting"], route["workers"], route["lane"]) == (1, 0, "normal")
    assert route["unplaceable"][0]["report"]["text"] == "0 of 1 worker: 1 lacks gpu"
    lines = [line.split("\t") for line in operator("queues", "--namespace", place).ok().out.splitlines()]
    assert [line[0] for line in lines] == [f"{place}/big", f"{place}/default"]
    assert lines[0][-1] == "gpu"
    assert lines[1][1:4] == ["1", "1", "1"]
    page = operator("queues", "show", f"{place}/big").ok().out
    assert "needs gpu=a100: 1 waiting, 0 running, 0 workers" in page
    assert "no living worker can run gpu since" in page
    operator("queues", "resume", f"{place}/default", "--by", "bob", "--reason", "it has room").ok()
    page = operator("queues", "show", f"{place}/default").ok().out
    assert "was paused by ann" in page
    assert "resumed by bob" in page


def test_pause__that_cannot_be_is_an_error(operator: Command, brokerjobs: Command, ledger: Ledger) -> None:
    queue = f"{ledger.place.namespace}/default"
    because = ("--reason", "no")
    operator("queues", "pause", f"{ledger.place.namespace}/nowhere", *because).fails(6, "nowhere", "queues list")
    operator("queues", "pause", queue, "--reason", " ").fails(2, "--reason is empty")
    operator("queues", "pause", queue, *because, "--until", "2001-01-01T00:00:00Z").fails(2, "has passed")
    operator("queues", "pause", queue, *because, "--until", "soon").fails(2, "--until")
    request = str(uuid4())
    operator("queues", "pause", queue, *because, "--request", request, "--by", "ann").ok()
    operator("queues", "pause", queue, *because, "--request", request, "--by", "bob").fails(7, "--request")
    assert "operator" in brokerjobs("queues", "pause", queue, *because).fails(9)


def test_workers__shows_what_they_have_and_a_lost_one_as_lost(operator: Command, ledger: Ledger) -> None:
    beat(ledger, "gone", gpu="a100")
    ledger.clock.advance(600)
    beat(ledger, "alive", os="linux", memory="16GiB")
    beat(ledger, "leaving", "draining")
    beat(ledger, "left", "stopped")

    told = operator("workers", "--namespace", ledger.place.namespace, "-o", "json").lines()

    assert [(one["name"], one["state"]) for one in told] == [
        ("alive", "online"),
        ("gone", "lost"),
        ("leaving", "draining"),
        ("left", "stopped"),
    ]
    assert told[0]["schema"] == "brokerjobs.worker/1"
    assert (told[1]["capabilities"]["gpu"], told[1]["heartbeat_age_seconds"]) == (["a100"], 600)
    assert told[0]["clock_offset_seconds"] == 2
    line = operator("workers", "--namespace", ledger.place.namespace).ok().out.splitlines()[0].split("\t")
    assert line[:6] == ["alive", "online", "3", "task:20", "0ms ago", "+2.0s"]
    assert line[6] == "memory=16GiB, os=linux"
    ledger.clock.advance(86400)
    assert operator("workers", "--namespace", ledger.place.namespace).ok().out == ""
    assert len(operator("workers", "--namespace", ledger.place.namespace, "--since", "2d").ok().out.splitlines()) == 4


def test_explain__says_what_is_unmet_who_is_nearest_and_until_when(operator: Command, ledger: Ledger) -> None:
    ledger.declare("gpu", needs=(Equal("gpu", "a100"), AtLeast("memory", "32GiB"), Exclusive("card")))
    job = ledger.submit("gpu", rung=True)
    beat(ledger, "small", gpu="a100", memory="16GiB")
    beat(ledger, "plain", memory="64GiB")
    explain_all(ledger)

    said = operator("jobs", "explain", str(job)).ok().out

    assert "waits for placement" in said
    assert "it needs memory>=32GiB, gpu=a100, exclusive:card" in said
    assert "workers: 0 of 2 workers: 1 memory 16GiB < 32GiB, 1 lacks gpu" in said
    assert "nearest: plain, lacks gpu" in said
    assert "card is free" in said
    told = operator("jobs", "explain", str(job), "-o", "json").json()
    assert told["schema"] == "brokerjobs.explanation/1"
    assert (told["report"]["because"], told["report"]["qualified"]) == ("none", 0)
    operator("jobs", "explain", str(uuid4())).fails(6, "brokerjobs jobs list")


def test_explain__says_one_shortage_once_and_when_the_job_fails(operator: Command, ledger: Ledger) -> None:
    ledger.declare("gpu", needs=(OneOf("gpu", ("a100", "h100")),), placement_deadline=timedelta(hours=2))
    job = needing.needing(ledger, Equal("gpu", "h100"), kind="gpu")
    beat(ledger, "plain")
    explain_all(ledger)

    said = operator("jobs", "explain", str(job)).ok().out

    assert "workers: 0 of 1 worker: 1 lacks gpu\n" in said
    assert "nearest: plain, lacks gpu\n" in said
    assert f"after 2h, at {rfc3339(ledger.clock.after(7200))}, it fails as unplaceable" in said


def test_refused_for_an_added_need__is_not_said_to_be_qualified_for(operator: Command, ledger: Ledger) -> None:
    job = needing.needing(ledger, Equal("gpu", "h100"))
    beat(ledger, "able")
    beat(ledger, "unable", types=("other",))
    ledger.worker.claim(job)
    explain_all(ledger)

    page = operator("jobs", "show", str(job)).ok().out

    assert "a worker that has gpu=h100 until" in page
    assert f"{ledger.worker.process.name} has not (asked 1 time)" in " ".join(page.split())
    assert "qualif" not in page.split("EVENTS")[0]


def test_show__says_in_words_who_holds_a_resource(operator: Command, ledger: Ledger) -> None:
    ledger.declare("work", needs=(Exclusive("card"),))
    needing.beat(ledger, ledger.worker)
    holder, first, second = (ledger.submit(rung=True) for _ in range(3))
    for job in (holder, first, second):
        ledger.worker.claim(job)
        ledger.clock.advance(0.01)

    page = " ".join(operator("jobs", "show", str(second)).ok().out.split("EVENTS")[0].split())

    assert f"waits for card, held by job {holder} on {ledger.worker.process.name}, lease until" in page
    assert "1 job before it; it waits until" in page
    assert "held_by" not in page


def test_workers__in_a_table_begin_with_what_was_declared(operator: Command, ledger: Ledger) -> None:
    beat(ledger, "one", arch="x86_64", cpu="2", gpu="a100", memory="16GiB")

    told = operator("workers", "--namespace", ledger.place.namespace, "-o", "table").ok().out

    assert "gpu=a100, arch" in told


def test_submit__to_a_paused_queue_says_which_and_until_when(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    paused = ("queues", "pause", f"{place}/default", "--reason", "the disk is full", "--by", "ann", "--until", "2h")
    operator(*paused).ok()
    producer = {"BROKERJOBS_DATABASE_URL": ledger.database.producer_url}

    done = operator("submit", f"{place}/work", "{}", env=producer).ok()

    assert "ann has paused its queue default (the disk is full): it waits until 20" in done.err
    assert "or until that is resumed" in done.err


def test_list__says_of_no_ended_or_running_job_that_it_waits(operator: Command, ledger: Ledger) -> None:
    running, done = ledger.submit(rung=True), ledger.submit(rung=True)
    ledger.worker.complete(ledger.worker.take(done))
    ledger.worker.take(running)

    told = operator("jobs", "list", "--namespace", ledger.place.namespace, "-o", "json").lines()

    assert [(one["state"], one["waiting"]) for one in told] == [("succeeded", None), ("running", None)]


def test_explain__of_a_job_that_has_ended_says_only_that(operator: Command, ledger: Ledger) -> None:
    job = ledger.submit(rung=True)
    ledger.worker.complete(ledger.worker.take(job))

    assert operator("jobs", "explain", str(job)).ok().out == (
        f"job {job} of {ledger.place.namespace}/work is succeeded\n"
    )


def test_status__tells_of_jobs_that_nobody_can_run_and_of_paused_queues(operator: Command, ledger: Ledger) -> None:
    place = ledger.place.namespace
    ledger.declare("gpu", queue="big", needs=(Equal("gpu", "a100"),))
    beat(ledger, "plain", os="linux")
    explain_all(ledger)
    status = ("status", "--namespace", place, "-o", "json")
    assert "placement" not in [one["about"] for one in operator(*status).json()["lines"]]
    jobs = [ledger.submit("gpu", rung=True) for _ in range(2)]
    ledger.clock.advance(600)
    beat(ledger, "plain", os="linux")
    explain_all(ledger)

    operator("queues", "pause", f"{place}/default", "--reason", "the disk is full", "--by", "ann").ok()
    lines = {one["about"]: one for one in operator(*status).json()["lines"]}

    said = lines["placement"]
    assert said["level"] == "fail"
    assert said["message"] == (
        f"2 jobs wait for a worker that can run {place}/gpu, which none can for 10m: 0 of 1 worker: 1 lacks gpu"
    )
    assert said["next"] == f"brokerjobs jobs explain {jobs[0]}"
    assert "waiting" not in lines  # told once
    assert lines["queues"]["message"].startswith(f"queue {place}/default is paused for 1s by ann: the disk is full")
    assert lines["queues"]["next"] == f"brokerjobs queues resume {place}/default"
