"""`brokerjobs status`: at most ten lines, the worst first, each with the next command."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from brokerjobs.ledger import calls, pauses, services
from brokerjobs.ledger.decisions import Request
from tests.ledger.ledger_caller import TEMPORARY
from tests.ledger.ledger_driver import Doors, Ledger
from tests.ledger.staging import DAY, HOUR, MINUTE, Staging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.cli.command import Command
    from tests.databases import Databases

QUICK = ("relay", "reaper", "scheduler")


def beat(ledger: Ledger, name: str = "w", state: str = "online", role: str = "worker", **detail: Any) -> None:
    """The heartbeat of a worker that consumes its route, or of a coordinator."""
    place = ledger.place
    process = calls.ProcessIdentity(uuid4(), name, "host", 1)
    said = {"reads": ["probe/1"], "consuming": [place.route()], **detail}
    heartbeat = services.Heartbeat(
        process, role, place.namespace, place.types, (place.route(),), state, ledger.clock.now, said
    )
    caller = ledger.worker if role == "worker" else ledger.coordinator
    caller.fetch(services.heartbeat(heartbeat))


def lead(ledger: Ledger) -> None:
    """A coordinator leads."""
    for service in QUICK:
        ledger.coordinator.lead(service)


def lines(operator: Command, ledger: Ledger) -> list[dict[str, Any]]:
    """What `status` says of the test's namespace."""
    found = operator("status", "--namespace", ledger.place.namespace, "-o", "json").json()
    assert found["schema"] == "brokerjobs.status/1"
    return list(found["lines"])


def about(operator: Command, ledger: Ledger) -> dict[str, dict[str, Any]]:
    return {line["about"]: line for line in lines(operator, ledger)}


def test_status__says_that_all_is_well(operator: Command, ledger: Ledger) -> None:
    lead(ledger)
    beat(ledger)
    ledger.worker.take(ledger.submit())
    ledger.submit(rung=True)

    done = operator("status", "--namespace", ledger.place.namespace).ok()

    assert done.out == "all is well: 1 running, 1 waiting; 1 worker alive\n"
    found = operator("status", "--namespace", ledger.place.namespace, "-o", "json").json()
    assert (found["well"], found["lines"], found["figures"]["queued"]) == (True, [], 1)


def test_status__counts_no_coordinator_among_the_workers(operator: Command, ledger: Ledger) -> None:
    lead(ledger)
    beat(ledger, "coordinator-a", role="coordinator")
    beat(ledger, "coordinator-b", "draining", role="coordinator")

    done = operator("status", "--namespace", ledger.place.namespace).ok()

    assert done.out == "all is well: 0 running, 0 waiting; 0 workers alive\n"


def test_status__of_a_ledger_without_a_coordinator_says_that_first(operator: Command, ledger: Ledger) -> None:
    lead(ledger)
    beat(ledger)
    ledger.clock.advance(60)
    late = ledger.submit(deadline=5, rung=True)
    ledger.clock.advance(10)

    first, second, *_ = lines(operator, ledger)

    assert (first["about"], first["level"], first["next"]) == ("coordinator", "fail", "brokerjobs coordinator")
    assert "no coordinator is alive for 1m" in first["message"]
    assert (second["about"], second["next"]) == ("deadlines", f"brokerjobs jobs show {late}")
    assert second["message"] == "1 job is past the deadline, not yet recorded, by up to 5s"


def test_status__names_a_service_without_a_tick(operator: Command, ledger: Ledger) -> None:
    lead(ledger)
    ledger.clock.advance(60)
    ledger.coordinator.lead("relay")
    ledger.coordinator.lead("scheduler")

    found = about(operator, ledger)["coordinator"]

    assert (found["level"], found["message"]) == ("fail", "services without a tick: reaper")


def test_status__tells_of_expired_leases_and_reviews(operator: Command, ledger: Ledger) -> None:
    job = ledger.submit()
    ledger.worker.take(job)
    unclear = ledger.worker.take(ledger.submit())
    ledger.worker.fail(unclear, {**TEMPORARY, "class": "unsafe"})
    ledger.clock.advance(120)
    lead(ledger)

    found = about(operator, ledger)

    assert found["leases"]["next"] == f"brokerjobs jobs show {job}"
    assert "1 expired lease is not yet taken, the oldest ended 1m30s ago" in found["leases"]["message"]
    assert found["reviews"]["message"] == "1 review is open, the oldest for 2m"
    assert found["reviews"]["next"] == "brokerjobs review list"


def test_status__has_the_figures_of_reviews_for_a_monitor(operator: Command, ledger: Ledger) -> None:
    def opens_one() -> UUID:
        unclear = ledger.worker.take(ledger.submit())
        ledger.worker.fail(unclear, {**TEMPORARY, "class": "unsafe"})
        return unclear.job_id

    def figures(*where: str) -> dict[str, Any]:
        found: dict[str, Any] = operator("status", *where, "-o", "json").json()["figures"]["reviews"]
        return found

    here = ("--namespace", ledger.place.namespace)
    none = {"open": 0, "oldest_seconds": None, "example": None, "opened_in_last_hour": 0, "opened_in_last_day": 0}
    assert figures(*here) == none

    ledger.operator.resolve(opens_one(), "give_up")
    ledger.clock.advance(7200)
    oldest = opens_one()
    ledger.clock.advance(600)
    opens_one()

    expected = {"open": 2, "oldest_seconds": 600, "example": str(oldest)}
    assert figures(*here) == {**expected, "opened_in_last_hour": 2, "opened_in_last_day": 3}
    assert figures()["opened_in_last_day"] >= 3
    assert figures("--namespace", "elsewhere") == none
    ledger.clock.advance(86_400 - 3600)
    assert figures(*here)["opened_in_last_hour"] == 0
    assert figures(*here)["opened_in_last_day"] == 2
    ledger.clock.advance(3600)
    assert figures(*here)["opened_in_last_day"] == 0


def test_status__says_why_jobs_wait_for_a_delivery(operator: Command, ledger: Ledger) -> None:
    ledger.submit(rung=True)
    lead(ledger)
    assert "waiting" not in about(operator, ledger)
    ledger.clock.advance(400)

    def told() -> tuple[str, str]:
        lead(ledger)
        found = about(operator, ledger)["waiting"]
        return found["message"].partition("already: ")[2], found["next"]

    ledger.owner.execute(
        "update brokerjobs.route set declared_at = %s where name = %s", [ledger.clock.now, ledger.place.route()]
    )
    assert told() == ("no live worker serves it", "brokerjobs worker MODULE:APP")
    beat(ledger, consuming=[])
    assert told() == ("1 worker serves it and none consumes it", "brokerjobs doctor")
    beat(ledger)
    assert told()[0] == "its 1 worker is behind"
    ledger.owner.execute("update brokerjobs.route set declared_at = null where name = %s", [ledger.place.route()])
    assert told() == ("its queue is not declared yet", "brokerjobs doctor")


def test_status__tells_of_failed_jobs_by_their_largest_group(operator: Command, ledger: Ledger) -> None:
    for message in ("account 1 is closed", "account 2 is closed", "no such bank"):
        holding = ledger.worker.take(ledger.submit())
        ledger.worker.fail(holding, {**TEMPORARY, "class": "invalid", "message": message})

    found = about(operator, ledger)["dead"]

    assert "3 jobs have failed in the last day; the largest group, 2, of" in found["message"]
    assert "account <n> is closed" in found["message"]
    shown = operator(*found["next"].split()[1:]).ok()
    assert "account <n> is closed" in shown.out


def test_status__tells_of_a_day_and_of_nothing_that_was_discarded(operator: Command, ledger: Ledger) -> None:
    def fail_one() -> UUID:
        holding = ledger.worker.take(ledger.submit())
        ledger.worker.fail(holding, {**TEMPORARY, "class": "invalid", "message": "no such bank"})
        return holding.job_id

    strange = calls.Strange(ledger.place.route(), "not_json", uuid4(), None, "d" * 64)
    fail_one()
    ledger.worker.fetch(calls.quarantine("worker-a", strange))
    assert {"dead", "quarantine"} <= about(operator, ledger).keys()
    ledger.clock.advance(86_400)
    assert not {"dead", "quarantine"} & about(operator, ledger).keys()

    ledger.operator.discard(fail_one())
    assert "dead" not in about(operator, ledger)


def test_status__tells_of_workers_that_are_gone_drain_or_leak(operator: Command, ledger: Ledger) -> None:
    beat(ledger, "lost")
    ledger.clock.advance(100)
    beat(ledger, "leaky", leaked_threads=2)
    beat(ledger, "leaving", "draining")

    found = about(operator, ledger)

    assert found["workers"]["message"] == "1 process is gone without a word, the last one 1m40s ago: lost"
    assert found["leaks"]["message"] == "2 places are held by handlers that cannot be stopped, on leaky"
    assert found["leaks"]["next"] == found["draining"]["next"] == "brokerjobs workers"
    assert (found["draining"]["level"], found["draining"]["message"]) == ("note", "1 worker is draining: leaving")


def test_status__tells_of_paused_types_and_quarantine(operator: Command, ledger: Ledger) -> None:
    lead(ledger)
    beat(ledger)
    asked = Request(id=uuid4(), by="ann", reason="the bank is away")
    ledger.operator.fetch(pauses.pause_type(ledger.place.namespace, "work", asked))
    ledger.worker.claim(ledger.submit(rung=True))
    work = f"{ledger.place.namespace}/work"

    found = about(operator, ledger)
    assert found["paused"]["message"].startswith(f"{work} is paused for ")
    assert found["paused"]["message"].endswith("by ann: the bank is away; 1 parked")
    assert (found["paused"]["level"], found["paused"]["next"]) == ("note", f"brokerjobs types resume {work}")
    assert operator("status", "--namespace", ledger.place.namespace).ok().out.splitlines()[-1].startswith("all is well")

    strange = calls.Strange(ledger.place.route(), "not_json", uuid4(), None, "d" * 64)
    ledger.worker.fetch(calls.quarantine("worker-a", strange))
    found = about(operator, ledger)
    assert "1 message went to quarantine in the last day" in found["quarantine"]["message"]
    assert found["quarantine"]["next"] == "brokerjobs quarantine list"


def test_status__tells_of_artifacts_and_their_stores(operator: Command, ledger: Ledger) -> None:
    staging = Staging(ledger)
    _, other = staging.handed_over("a", keep_for=30 * DAY)
    _, left = staging.handed_over("b", keep_for=MINUTE)
    staging.mismatch(other)
    ledger.clock.advance(MINUTE)
    assert staging.sweep() == {left: "unacknowledged"}

    def told() -> list[tuple[str, str]]:
        lead(ledger)
        return [
            (line["level"], line["message"])
            for line in lines(operator, ledger)
            if line["about"] == "artifacts" or staging.store in line["message"]
        ]

    mismatch = ("fail", "1 staged copy is not what was staged, or missing")
    assert told() == [mismatch, ("warn", "nobody acknowledged 1 artifact in time: removed in the last day")]
    shown = operator("artifacts", "list", "--state", "hash_mismatch", "--all-attempts", "-o", "json").ok()
    assert str(other) in shown.out

    ledger.clock.advance(HOUR - MINUTE)
    staging.sweep()  # asked for again, since nobody has said that it is gone
    assert [level for level, _ in told()] == ["fail", "warn"]
    ledger.clock.advance(2 * MINUTE)
    assert told()[-1] == (
        "warn",
        f"1 artifact is to be removed from {staging.store} and not gone, the first for 1h1m",
    )
    staging.removed(left)
    ledger.clock.advance(DAY)
    assert told() == [mismatch]

    staging.handed_over("c", keep_for=MINUTE)
    ledger.clock.advance(DAY)
    assert told()[-1][1].startswith(f"nobody has looked after {staging.store} for ")
    assert told()[-1][1].endswith(": nothing is removed from it")

    ledger.clock.advance(30 * DAY)
    swept = staging.sweep()
    assert swept[other] == "mismatch"
    staging.removed(*swept)
    assert mismatch in told()
    ledger.clock.advance(DAY + MINUTE)
    assert told() == []


def test_status__tells_of_a_storm_of_retries(operator: Command, ledger: Ledger) -> None:
    ledger.owner.execute(
        "insert into brokerjobs.retry_budget values (%s, 1000, 5000, 10, %s)",
        [ledger.place.route(), ledger.clock.now + timedelta(seconds=20)],
    )
    found = about(operator, ledger)["retries"]
    assert "5000 to 1000 first attempts in five minutes: delays are stretched 10.0 times" in found["message"]


def test_status__has_at_most_ten_lines_worst_first_each_with_a_command(operator: Command, ledger: Ledger) -> None:
    beat(ledger, "lost")
    for kind in ("unsafe", "invalid"):
        ledger.worker.fail(ledger.worker.take(ledger.submit()), {**TEMPORARY, "class": kind})
    ledger.worker.take(ledger.submit())
    ledger.submit(rung=True)
    ledger.clock.advance(600)
    ledger.submit(deadline=1, rung=True)
    ledger.clock.advance(5)
    beat(ledger, "leaky", "draining", leaked_threads=1)
    strange = calls.Strange(ledger.place.route(), "not_json", uuid4(), None, "d" * 64)
    ledger.worker.fetch(calls.quarantine("worker-a", strange))
    ledger.operator.fetch(
        pauses.pause_type(ledger.place.namespace, "once", Request(id=uuid4(), by="ann", reason="no bank\nat all"))
    )

    shown = operator("status", "--namespace", ledger.place.namespace).ok().out.splitlines()

    assert len(shown) == 10
    levels = [line.split()[0] for line in shown[:-1]]
    assert levels == sorted(levels, key=["fail", "warn", "note"].index)
    assert shown[0].split()[1] == "coordinator"
    assert all(re.search(r"; next: brokerjobs \S", line) for line in shown[:-1])
    assert "also: " in shown[8]
    assert re.fullmatch(r"1 running, \d waiting; 0 workers alive", shown[9])


def test_status__looks_at_all_namespaces_unless_one_is_named(
    operator: Command, ledger: Ledger, shop: str, namespace: str
) -> None:
    ledger.worker.fail(ledger.worker.take(ledger.submit()), {**TEMPORARY, "class": "invalid"})

    everywhere = operator("status", "-o", "json").json()
    elsewhere = operator("status", "--namespace", "elsewhere", "-o", "json").json()
    ours = operator("status", "--app", shop, "-o", "json").json()

    assert everywhere["namespace"] is None
    assert "dead" in {line["about"] for line in everywhere["lines"]}
    assert "dead" not in {line["about"] for line in elsewhere["lines"]}
    assert ours["namespace"] == namespace
    operator("status", "--app", shop, "--namespace", "x").fails(2, "--namespace and --app")


def test_status__of_a_ledger_that_is_away_says_so(offline: Command) -> None:
    away = {"BROKERJOBS_DATABASE_URL": "postgresql://user:secret@127.0.0.1:1/x"}
    said = offline("status", env=away).fails(4, "127.0.0.1")
    assert "secret" not in said


@pytest.fixture(scope="module")
def crowded(databases: Databases) -> Iterator[Doors]:
    """A ledger with 100 000 jobs: most have succeeded, some wait, some failed a moment ago."""
    made = databases.with_ledger()
    doors = Doors(made)
    owner = doors.connect("owner")
    owner.execute(_CROWD)
    owner.execute("analyze brokerjobs.job, brokerjobs.job_state, brokerjobs.dead")
    yield doors
    doors.give_back("owner", owner)
    doors.close()
    databases.drop(made)


_BOUND = 15 * 10_000  # of as many rows as each part may look at; as many parts do, by index and by key

_CROWD = """
with made as (
  insert into brokerjobs.job (id, namespace, type, route, payload, payload_hash, submitted_by, login, tags,
      submitted_at, repeatable, lease, time_limit, retry_attempts, retry_elapsed, retry_first_delay, retry_factor,
      retry_max_delay, placement_deadline, result_limit)
    select ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'crowd', 'work', 'crowd.q.default', '{}', '',
        'x', 'x', '{}', clock_timestamp() - interval '1 hour', true, interval '30 seconds', interval '1 minute', 5,
        interval '1 day', interval '1 second', 2, interval '1 minute', interval '1 day', 1000
      from generate_series(1, 100000) n
  returning id
), numbered as (
  select id, row_number() over (order by id) as n from made
), failed as (
  insert into brokerjobs.dead (job_id, group_id, namespace, type, failure_class, message, failed_at)
    select id, 'abcdefabcdef', 'crowd', 'work', 'invalid', 'x', clock_timestamp() from numbered where n % 20 = 0
)
insert into brokerjobs.job_state (job_id, state, waiting, rung_at, accepted_attempt_id, failure_class, finished_at)
  select id, case when n % 4 = 1 then 'queued' when n % 20 = 0 then 'failed' else 'succeeded' end,
      case when n % 4 = 1 then 'delivery' end, clock_timestamp() - interval '1 hour',
      case when n % 4 <> 1 and n % 20 <> 0 then id end, case when n % 20 = 0 then 'invalid' end,
      case when n % 4 <> 1 then clock_timestamp() end
    from numbered
"""


def test_status__with_a_hundred_thousand_jobs_reads_no_table_of_jobs_whole(crowded: Doors) -> None:
    """By the server's own counts: no sequential scan of what has a row a job, and of all namespaces a bounded look."""
    reader, owner = crowded.connect("reader"), crowded.connect("owner")
    counted = (
        "select sum(seq_scan), sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables"
        " where schemaname = 'brokerjobs' and relname = any (%s)"
    )
    tables = ["job", "job_state", "dead", "attempt", "event"]

    def read() -> tuple[int, int]:
        """How many scans, and how many rows, up to now."""
        reader.execute(
            "select pg_stat_force_next_flush()"
        )  # the server counts at the end of a transaction, with a delay
        owner.execute("select pg_stat_clear_snapshot()")
        (row,) = owner.execute(counted, [tables]).fetchall()
        return int(row[0]), int(row[1])

    def ask(namespace: str | None = None) -> dict[str, Any]:
        asked = "select brokerjobs.overview(%s, interval '5 minutes')"
        (row,) = reader.execute(asked, [namespace]).fetchall()
        return dict(row[0])

    ask()
    scans, rows = read()
    found = ask()
    assert (found["queued"], found["waiting"][0]["jobs"]) == (10_000, 10_000)
    assert found["dead"]["largest"]["jobs"] > 0
    assert read()[1] - rows < _BOUND

    assert ask("elsewhere")["queued"] == 0
    assert ask("crowd")["queued"] == 25_000
    assert read()[0] == scans
    crowded.give_back("reader", reader)
    crowded.give_back("owner", owner)
