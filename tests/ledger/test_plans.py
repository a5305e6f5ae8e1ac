"""No function of the hot paths reads a whole table, whatever the table's size was when its plan was made.

A plan cached while a table was small stays in use while it grows (measured: 600 rows a second instead of 40 000), so
what is looked at is the plans that are really executed inside the functions, as auto_explain reports them.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from brokerjobs.ledger import calls, decisions, figures, lease_history
from brokerjobs.ledger.ticks import Candidacy
from tests.ledger.ledger_caller import Caller, Place, new_job
from tests.ledger.ledger_driver import Doors, Ledger
from tests.ledger.reconciling import Reconciling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Database

TABLES = ("job", "job_state", "attempt", "outbox", "idempotency_key", "review")


@pytest.fixture
def explained(own_ledger: Ledger, database: Database) -> Iterator[tuple[Ledger, list[str]]]:
    """A ledger whose callers are a superuser's one session, and the plans that it has executed."""
    doors = Doors(database)
    admin = doors.connect("admin")
    try:
        admin.execute("load 'auto_explain'")
    except psycopg.errors.UndefinedFile:
        pytest.skip("this server has no auto_explain")
    plans: list[str] = []
    admin.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
    for setting in (
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_nested_statements = on",
        "client_min_messages = log",
    ):
        admin.execute(f"set {setting}".encode())
    everything = Caller(admin, Place(own_ledger.place.namespace), own_ledger.clock)
    own_ledger.worker = own_ledger.producer = own_ledger.coordinator = everything
    yield own_ledger, plans
    doors.close()
    admin.close()


def _use_everything(ledger: Ledger) -> None:
    """Every function that a job meets on its way, twice, so that cached plans are used too."""
    worker, coordinator = ledger.worker, ledger.coordinator
    for _ in range(8):
        jobs = [new_job(key=str(uuid4())) for _ in range(6)]
        made = ledger.submit_all(jobs)
        ledger.submit_all([new_job(key=jobs[0].key)])
        messages, mark = coordinator.outbox_take()
        coordinator.outbox_done(*(m.ticket for m in messages if m.ticket))
        coordinator.outbox_take(mark)
        assert {answer.verdict for answer in made} == {"created"}, made
        ids = [answer.id for answer in made]
        worker.hand_back(*ids)
        first, second, third, fourth, fifth, sixth = (worker.take(job) for job in ids)
        worker.renew(first, ledger.clock.now)
        worker.start(first)
        worker.complete(first)
        worker.complete(first)
        worker.fetch(calls.acked([calls.SentAck(first.attempt_id, ledger.clock.now, calls.LeaseFigures())]))
        worker.fail(second)
        worker.snooze(third, 1)
        worker.complete_v1(fourth)
        worker.begin()
        worker.fence_v1(fifth)
        worker.commit()
        worker.asked(fifth)
        ledger.producer.cancel(sixth.job_id)
        worker.complete(sixth)
        ledger.clock.advance(31)
        coordinator.expire()
        coordinator.due()
        worker.complete(fifth)


def _whole_tables(plans: list[str]) -> set[str]:
    found = {
        f"{match.group(0)} in: {plan.splitlines()[1]}"
        for plan in plans
        for match in re.finditer(r"Seq Scan on (\w+)", plan)
        if match.group(1) in TABLES
    }
    return {line[:200] for line in found}


def test_plans__read_no_whole_table_that_is_empty_or_freshly_analyzed(explained: tuple[Ledger, list[str]]) -> None:
    ledger, plans = explained
    _use_everything(ledger)
    ledger.owner.execute("analyze")
    _use_everything(ledger)

    assert len(plans) > 1000
    assert _whole_tables(plans) == set()


def test_plans__walk_through_waiting_jobs_without_looking_at_any_other(explained: tuple[Ledger, list[str]]) -> None:
    ledger, plans = explained
    reconciling = Reconciling(ledger)
    worker = reconciling.worker()
    ledger.owner.execute(
        "insert into brokerjobs.job_state (job_id, state, waiting, wait_until)"
        " select gen_random_uuid(), 'queued', 'schedule', t + interval '1 day' from generate_series(1, 2000),"
        " brokerjobs.clock() t"
    )
    ledger.owner.execute("analyze")
    reconciling.waiting(5)
    worker.beats()
    ledger.coordinator.sql("set auto_explain.log_analyze = on")

    (probe,) = reconciling.looks(rows=3).probes
    worker.returns(probe.ticket)
    ledger.clock.advance(1)
    worker.beats()
    lost = len(plans)
    assert reconciling.looks(rows=3).rung == 5

    steps = [step for plan in plans for step in plan.split("->")]
    walked = [step for step in steps if "job_state_delivery" in step]
    assert len(walked) >= 3
    assert [step for step in walked if re.search(r"Rows Removed by Filter: [1-9]", step)] == []
    # The outbox is read as a whole, but only while a probe is settled.
    assert {line for line in _whole_tables(plans) if not line.startswith("Seq Scan on outbox")} == set()
    read = [step for plan in plans[:lost] for step in plan.split("->") if "Seq Scan on outbox" in step]
    assert [step for step in read if "never executed" not in step] == []


def test_plans__find_what_is_due_without_looking_at_what_is_not(explained: tuple[Ledger, list[str]]) -> None:
    """A hundred thousand jobs that wait for later must not cost every tick of the scheduler (measured: 60 ms)."""
    ledger, plans = explained
    ledger.owner.execute(
        "insert into brokerjobs.job_state (job_id, state, waiting, wait_until, deadline)"
        " select gen_random_uuid(), 'queued', 'schedule', t + interval '1 day', t + interval '1 day'"
        " from generate_series(1, 2000), brokerjobs.clock() t"
    )
    ledger.owner.execute("analyze")
    ledger.coordinator.sql("set auto_explain.log_analyze = on")

    ledger.coordinator.due()

    (scan,) = [plan for plan in plans if "job_state_due" in plan]
    assert not re.search(r"Rows Removed by Filter: [1-9]", scan), scan


def test_functions__that_forbid_plans_do_not_compile_them(ledger: Ledger) -> None:
    """A forbidden node that cannot be avoided costs 10^10 before PostgreSQL 18: to the planner that is worth half a
    second of the just-in-time compiler, at every call (measured: 0.7 s instead of 3 ms)."""
    settings: dict[str, list[str]] = dict(
        ledger.owner.execute(
            "select proname, proconfig from pg_proc where pronamespace = 'brokerjobs'::regnamespace"
            " and array_to_string(proconfig, ' ') like '%%enable_%%'"
        ).fetchall()
    )

    assert len(settings) > 20
    assert [name for name, config in settings.items() if "jit=off" not in config] == []


def test_plans__list_the_dead_by_reading_those_that_are_counted_and_no_other(
    explained: tuple[Ledger, list[str]],
) -> None:
    """After a storm tens of thousands were discarded, or are another namespace's, and a few are new.

    A group is one of a namespace, as those are that the ledger makes.
    """
    ledger, plans = explained
    ledger.owner.execute(
        "insert into brokerjobs.dead"
        " (job_id, group_id, namespace, type, failure_class, message, failed_at)"
        " select gen_random_uuid(), left(md5((n % 100)::text), 12), case when n % 4 = 0 then 'a' else 'b' end,"
        " 'work', 'invalid', repeat('m', 150), t - n * interval '1 second'"
        " from generate_series(1, 20000) n, brokerjobs.clock() t"
    )
    ledger.owner.execute("analyze brokerjobs.dead")
    ledger.coordinator.sql("set auto_explain.log_analyze = on")

    def read(namespace: str | None, wanted: str | None, limit: int) -> tuple[int, int]:
        """How many groups were answered, and how many rows of `dead` were read for them."""
        query = decisions.dead_list(namespace, None, wanted, limit)
        for _ in range(6):  # as often as it takes until plans are kept
            ledger.coordinator.fetch(query)
        plans.clear()
        found = ledger.coordinator.fetch(query)
        said = "\n".join(plans)
        assert not re.search(r"Seq Scan on (dead|job|job_state|attempt|event)", said), said
        assert not re.search(r"Rows Removed by (Filter|Index Recheck): [1-9]", said), said
        scans = re.findall(r"Scan [^\n]*\bdead \w\b[^\n]*actual [^\n]*rows=([\d.]+) loops=(\d+)", said)
        assert len(scans) == 2, said
        return len(found), round(sum(float(rows) * int(loops) for rows, loops in scans))

    assert read(None, None, 1000) == (100, 20_000 + 100)

    ledger.owner.execute(
        "update brokerjobs.dead x set discarded_at = t from brokerjobs.clock() t"
        " where x.failed_at < t - interval '2000 seconds'"
    )
    ledger.owner.execute("vacuum analyze brokerjobs.dead")
    [(group, jobs)] = ledger.owner.execute(
        "select group_id, count(*) from brokerjobs.dead where discarded_at is null and namespace = 'a'"
        " group by group_id order by group_id limit 1"
    ).fetchall()
    assert read(None, None, 1000) == (100, 2000 + 100)
    assert read(None, None, 10) == (10, 2000 + 10)
    assert read("a", None, 1000) == (25, 500 + 25)
    assert read("a", group, 1) == (1, jobs + 1)


def test_plans__sample_the_history_of_leases_without_reading_the_attempts_of_all_time(
    explained: tuple[Ledger, list[str]],
) -> None:
    """Most attempts of ten days; what is read of them is bounded, whatever their number."""
    ledger, plans = explained
    ledger.owner.execute(
        """
        with made as (
          select brokerjobs.first_uuid7(x.at) as id, x.at from brokerjobs.clock() t, generate_series(1, 10000) n,
              lateral (select t - n * interval '87 seconds' as at) x),
        jobs as (
          insert into brokerjobs.job (id, namespace, type, route, payload, payload_hash, submitted_by, login, tags,
              submitted_at, repeatable, lease, time_limit, retry_attempts, retry_elapsed, retry_first_delay,
              retry_factor, retry_max_delay, placement_deadline, result_limit)
            select id, 'a', 'work', 'r', '{}', '', 'me', 'me', '{}', at, true, '30 s', '10 min', 5, '1 d', '1 s', 2,
              '10 min', '1 d', 262144 from made)
        insert into brokerjobs.attempt (id, job_id, number, fencing_number, worker_id, worker, login, route, claimed_at,
            lease_first_until, lease_last_until)
          select id, id, 1, 1, id, 'w', 'w', 'r', at, at, at from made
        """
    )
    ledger.owner.execute("analyze")
    ledger.coordinator.sql("set auto_explain.log_analyze = on")
    bounds = lease_history.Bounds(newest=200, slices=10, each=20)

    rows = ledger.coordinator.fetch(lease_history.lease_history(None, None, timedelta(days=7), bounds))

    assert {row.looked for row in rows} == {200 + 10 * 20}
    said = "\n".join(plans)
    assert not re.search(r"Seq Scan on (attempt|job|job_state|job_type|event)", said), said
    scans = re.findall(r"Index[^\n]* Scan [^\n]*\bon attempt\b[^\n]*actual [^\n]*rows=([\d.]+) loops=(\d+)", said)
    assert len(scans) == 3, said
    assert round(sum(float(rows) * int(loops) for rows, loops in scans)) <= 2 * 400


def test_plans__tell_the_monitor_of_what_is_unfinished_without_reading_what_has_ended(
    explained: tuple[Ledger, list[str]],
) -> None:
    """Finished jobs and discarded failures stay for months, and it looks every fifteen seconds."""
    ledger, plans = explained
    ledger.owner.execute(
        """
        with made as (select gen_random_uuid() as id, n, t from generate_series(1, 20000) n, brokerjobs.clock() t),
        jobs as (
          insert into brokerjobs.job (id, namespace, type, route, payload, payload_hash, submitted_by, login, tags,
              submitted_at, repeatable, lease, time_limit, retry_attempts, retry_elapsed, retry_first_delay,
              retry_factor, retry_max_delay, placement_deadline, result_limit)
            select id, 'a', 'work', 'r', '{}', '', 'me', 'me', '{}', t, true, '30 s', '10 min', 5, '1 d', '1 s', 2,
              '10 min', '1 d', 262144 from made),
        gone as (
          insert into brokerjobs.dead (job_id, group_id, namespace, type, failure_class, message, failed_at,
              discarded_at, discarded_by)
            select id, 'g', 'a', 'work', 'invalid', 'm', t, t, 'me' from made where n % 2 = 0)
        insert into brokerjobs.job_state (job_id, state, failure_class, finished_at)
          select id, case when n % 2 = 0 then 'failed' else 'cancelled' end,
              case when n % 2 = 0 then 'invalid' end, t from made
        """
    )
    ledger.submit_all([new_job() for _ in range(20)])
    ledger.owner.execute("analyze")
    ledger.coordinator.sql("set auto_explain.log_analyze = on")
    by = ledger.coordinator
    query = figures.monitored(Candidacy("monitor", by.process, 60.0), 10, 60.0)
    for _ in range(6):  # as often as it takes until plans are kept
        by.fetch(query)
    plans.clear()

    rows = by.fetch(query)

    counted = {row.value for row in rows if row.metric == "brokerjobs.job.count"}
    assert counted == {10}
    said = "\n".join(plans)
    assert not re.search(r"Seq Scan on (job|job_state|attempt|dead|event|review)", said), said
    steps = [
        step for step in said.split("->") if re.search(r"Scan [^\n]*\bon (job|job_state|dead|review|attempt) ", step)
    ]
    assert [step for step in steps if re.search(r"Rows Removed by (Filter|Index Recheck): [1-9]", step)] == []
    scans = re.findall(r"Scan [^\n]*\bon (?:job|job_state|dead) [^\n]*actual [^\n]*rows=([\d.]+) loops=(\d+)", said)
    assert len(scans) >= 5, said
    assert sum(float(found) * int(loops) for found, loops in scans) <= 100
