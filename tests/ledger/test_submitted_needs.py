"""What submissions need, what resources that makes, the lanes that they come by, and how many routes there may be."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from brokerjobs import needs
from brokerjobs.rules.needs import as_data
from tests.ledger.inner import asked
from tests.ledger.ledger_caller import new_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerjobs.ledger.inquiries import Submitted
    from brokerjobs.rules.needs import Need
    from tests.ledger.ledger_driver import Ledger

ACCOUNT = needs.exclusive("account:{account}")
SUBMIT_V1 = "select verdict, job_id, detail from brokerjobs.submit_v1(%s, %s, %s, options => %s)"


def submitted(ledger: Ledger, payload: Any = None, *added: Need, kind: str = "work", **other: Any) -> Submitted:
    (answer,) = ledger.submit_all([new_job(payload, needs=added, **other)], kind)
    return answer


def resources(ledger: Ledger, payload: Any, *wanted: Need) -> Any:
    """The resources of a job of a type with these needs; the problem, if it was refused."""
    kind = f"k{uuid4().hex[:12]}"
    ledger.declare(kind, needs=wanted)
    answer = submitted(ledger, payload, kind=kind)
    if answer.verdict == "invalid":
        return json.loads(answer.detail or "{}")["problem"]
    return ledger.producer.record(answer.id)["resources"]


def places(ledger: Ledger) -> dict[str, list[int]]:
    """The places of the namespace's resources."""
    rows = ledger.owner.execute(
        "select name, array_agg(place order by place) from brokerjobs.resource where namespace = %s"
        " group by 1 order by 1",
        [ledger.place.namespace],
    )
    return dict(rows)


def route(ledger: Ledger, lane: str = "normal", kind: str = "work") -> dict[str, Any]:
    query: LiteralString = (
        "select to_jsonb(r) from route r join route_type y on y.route = r.name"
        " where (y.namespace, y.type, r.lane) = (%s, %s, %s)"
    )
    found: list[dict[str, Any]] = asked(ledger, query, ledger.place.namespace, kind, lane)
    return found[0]


def test_submit__freezes_the_types_needs_and_keeps_what_is_added_apart(ledger: Ledger) -> None:
    own = [needs.limit("smtp", 10), needs.at_least("memory", "2GiB")]
    ledger.declare("needy", needs=own)
    added = [needs.has("dataset", "coco"), needs.equal("os", "linux"), needs.has("dataset", "coco")]

    job = submitted(ledger, {}, *added, kind="needy").id
    ledger.declare("needy", needs=[])

    record = ledger.producer.record(job)
    assert (record["needs"], record["added_needs"]) == (as_data(own), as_data(added))
    assert (record["resources"], record["priority"]) == ([{"name": "smtp", "limit": 10}], "normal")
    later = ledger.producer.record(submitted(ledger, {}, kind="needy").id)
    assert (later["needs"], later["added_needs"], later["resources"]) == ([], [], [])


def test_submit__of_jobs_without_needs_beside_some_with_them(ledger: Ledger) -> None:
    jobs = [
        new_job({"n": 1}),
        new_job({"account": 7}, needs=[ACCOUNT]),
        new_job({"n": 2}, priority="high"),
        new_job({"n": 3}, needs=[needs.has("a", "b")]),
    ]

    answers = ledger.submit_all(jobs)

    records = [ledger.producer.record(one.id) for one in answers]
    assert [one["added_needs"] for one in records] == [[], as_data([ACCOUNT]), [], as_data([needs.has("a", "b")])]
    assert [one["resources"] for one in records] == [[], [{"name": "account:7", "limit": 1}], [], []]
    normal, high = ledger.place.route(), ledger.place.route() + ":high"
    assert [one["route"] for one in records] == [one.route for one in answers] == [normal, normal, high, normal]
    assert [one["priority"] for one in records] == ["normal", "normal", "high", "normal"]


@pytest.mark.parametrize(
    ("payload", "wanted", "names"),
    [
        ({"account": "7"}, [ACCOUNT], {"account:7": 1}),
        ({"account": 7}, [ACCOUNT], {"account:7": 1}),
        ({"account": True}, [ACCOUNT], {"account:true": 1}),
        ({"account": ""}, [ACCOUNT], {"account:": 1}),
        ({"account": "{account}"}, [ACCOUNT], {"account:{account}": 1}),
        ({"account": "a}b{c"}, [needs.exclusive("{account}{account}")], {"a}b{ca}b{c": 1}),
        ({"a": {"b": {"c": 1.5}}, "d": "x"}, [needs.exclusive("{d}/{a.b.c}")], {"x/1.5": 1}),
        ({"a.b": 1, "a": {"b": 2}}, [needs.exclusive("{a.b}")], {"2": 1}),
        ({}, [needs.limit("smtp", 3), needs.exclusive("b"), needs.limit("a", 2)], {"a": 2, "b": 1, "smtp": 3}),
        ({}, [needs.limit("smtp", 3), needs.limit("smtp", 2), needs.limit("smtp", 9)], {"smtp": 2}),
        ({}, [needs.limit("smtp", 3), needs.exclusive("smtp")], {"smtp": 1}),
        ({"a": "x", "b": "x"}, [needs.exclusive("{a}"), needs.limit("{b}", 2)], {"x": 1}),
        (
            {"a": "é", "b": "Z"},
            [needs.exclusive("{a}"), needs.exclusive("{b}"), needs.exclusive("a")],
            {"Z": 1, "a": 1, "é": 1},
        ),
    ],
)
def test_resources__are_filled_in_sorted_and_each_once(
    ledger: Ledger, payload: Any, wanted: Sequence[Need], names: dict[str, int]
) -> None:
    assert resources(ledger, payload, *wanted) == [{"name": name, "limit": limit} for name, limit in names.items()]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({}, "its need account:{account} asks for the payload's field account, which is missing"),
        ([1], "its need account:{account} asks for the payload's field account, which is missing"),
        ("account", "its need account:{account} asks for the payload's field account, which is missing"),
        ({"account": None}, "its need account:{account} asks for the payload's field account, which is null"),
        (
            {"account": {"id": 1}},
            "asks for the payload's field account, which is of type object, not a text, number or boolean",
        ),
        ({"account": "x" * 248}, "its need account:{account}, filled in from the payload, is over 255 characters"),
        (
            {"account": "a\nb"},
            "its need account:{account}, filled in from the payload, has characters that cannot be printed",
        ),
    ],
)
def test_resources__that_cannot_be_filled_in_are_refused_by_name(ledger: Ledger, payload: Any, problem: str) -> None:
    assert problem in resources(ledger, payload, ACCOUNT)


def test_resources__of_255_characters_are_none_too_long(ledger: Ledger) -> None:
    assert len(resources(ledger, {"account": "x" * 247}, ACCOUNT)[0]["name"]) == 255


def test_submit__refused_for_a_field_leaves_its_key_free(ledger: Ledger) -> None:
    assert submitted(ledger, {}, ACCOUNT, key="k").verdict == "invalid"
    assert submitted(ledger, {"account": 1}, ACCOUNT, key="k").verdict == "created"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"needs": [{"kind": "exclusive", "name": "a:{b}"}]}, "field b, which is missing"),
        ({"needs": [{"kind": "exclusive", "name": "a:{b"}]}, "a field of the payload is written {account}"),
        ({"needs": "gpu=a100"}, "needs are of type string, not a list"),
        ({"priority": "urgent"}, "priority urgent is none of high, normal and low"),
        ({"priority": ["high"]}, 'priority ["high"] is none of high, normal and low'),
    ],
)
def test_submit_v1__refuses_needs_and_priorities(ledger: Ledger, options: Any, problem: str) -> None:
    ((verdict, job, detail),) = ledger.producer.sql(
        SUBMIT_V1, ledger.place.namespace, "work", "{}", json.dumps(options)
    )

    assert (verdict, job) == ("invalid", None)
    assert problem in detail["problem"]


def test_submit_v1__takes_needs_and_priority(ledger: Ledger) -> None:
    options = {
        "needs": [
            {"kind": "limit", "name": "smtp:{to}", "limit": 2},
            {"kind": "at_least", "name": "memory", "value": "2GiB"},
        ],
        "priority": "low",
    }

    ((verdict, job, _),) = ledger.producer.sql(
        SUBMIT_V1, ledger.place.namespace, "work", '{"to": "a"}', json.dumps(options)
    )

    record = ledger.producer.record(job)
    assert (verdict, record["priority"], record["route"]) == ("created", "low", ledger.place.route() + ":low")
    assert record["added_needs"] == as_data([needs.limit("smtp:{to}", 2), needs.at_least("memory", "2GiB")])
    assert record["resources"] == [{"name": "smtp:a", "limit": 2}]
    nulls = json.dumps({"needs": None, "priority": None})
    ((verdict, job, _),) = ledger.producer.sql(SUBMIT_V1, ledger.place.namespace, "work", "1", nulls)
    assert (verdict, ledger.producer.record(job)["priority"]) == ("created", "normal")


def test_submit__of_an_earlier_release_goes_on(ledger: Ledger) -> None:
    """Its statement has fifteen parameters."""
    ledger.declare("charged", needs=[ACCOUNT])
    job = uuid4()
    old = (
        "select id, verdict, route from brokerjobs.submit(%s, %s, %s, %s, null, 'old', null, null, null, null, null,"
        " now(), false, null, null)"
    )

    rows = ledger.producer.sql(old, ledger.place.namespace, "charged", [job], ['{"account": 1}'])

    assert rows == [(job, "created", ledger.place.route())]
    assert ledger.producer.record(job)["resources"] == [{"name": "account:1", "limit": 1}]


def test_places__are_made_with_the_submission(ledger: Ledger) -> None:
    submitted(ledger, {"account": 1}, ACCOUNT, needs.limit("smtp", 3))
    assert places(ledger) == {"account:1": [1], "smtp": [1, 2, 3]}

    submitted(ledger, {"account": 2}, ACCOUNT, needs.limit("smtp", 5))
    submitted(ledger, {"account": 1}, ACCOUNT, needs.limit("smtp", 2))
    assert places(ledger) == {"account:1": [1], "account:2": [1], "smtp": [1, 2, 3, 4, 5]}


def test_places__of_a_refused_submission_are_not_made(ledger: Ledger) -> None:
    submitted(ledger, {"account": 1}, ACCOUNT, needs.exclusive("{b}"))

    assert places(ledger) == {}


def test_places__that_another_transaction_makes_are_waited_for_by_nobody(ledger: Ledger) -> None:
    """The claim takes the missing one for busy, and the scheduler makes it."""
    other = ledger.open("producer")
    other.begin()
    ledger.submit_all([new_job(needs=[needs.exclusive("b")])], by=other)
    began = time.monotonic()

    answer = submitted(ledger, {}, *map(needs.exclusive, "abcd"))

    waited = time.monotonic() - began
    assert answer.verdict == "created"
    assert waited < 1.9, "as long as for a lock"
    assert places(ledger) == {"a": [1]}
    other.rollback()
    assert asked(ledger, "select make_places(%s, 'b', 1)", ledger.place.namespace) == [True]
    assert places(ledger) == {"a": [1], "b": [1]}


def test_places__of_two_transactions_that_name_them_the_other_way_round(ledger: Ledger) -> None:
    first, second = ledger.open("producer"), ledger.open("producer")
    for caller, name in ((first, "b"), (second, "a")):
        caller.begin()
        ledger.submit_all([new_job(needs=[needs.exclusive(name)])], by=caller)

    for caller, name in ((first, "a"), (second, "b")):
        (answer,) = ledger.submit_all([new_job(needs=[needs.exclusive(name)])], by=caller)
        assert answer.verdict == "created"
        caller.commit()

    assert places(ledger) == {"a": [1], "b": [1]}


def test_lanes__are_wanted_at_their_first_use(ledger: Ledger) -> None:
    assert [route(ledger, lane)["wanted"] for lane in ("high", "normal", "low")] == [False, True, False]

    submitted(ledger, {}, priority="high")

    assert [route(ledger, lane)["wanted"] for lane in ("high", "normal", "low")] == [True, True, False]


def test_lanes__of_a_refused_submission_are_not_wanted(ledger: Ledger) -> None:
    submitted(ledger, {}, ACCOUNT, priority="high")

    assert route(ledger, "high")["wanted"] is False


def test_lanes__whose_row_is_locked_are_left_to_the_first_refused_doorbell(ledger: Ledger) -> None:
    with ledger.owner.transaction():
        name = ledger.place.route() + ":low"
        ledger.owner.execute("select from brokerjobs.route where name = %s for update", [name])
        assert submitted(ledger, {}, priority="low").verdict == "created"

    assert route(ledger, "low")["wanted"] is False


def test_lanes__that_an_open_transaction_uses_first_hold_up_no_coordinator(ledger: Ledger) -> None:
    other = ledger.open("producer")
    other.begin()
    ledger.submit_all([new_job(priority="high")], by=other)
    answer = submitted(ledger, {}, priority="high")

    ledger.coordinator.begin()
    ledger.coordinator.sql("set local lock_timeout = '2s'")
    ledger.coordinator.sql("select brokerjobs.outbox_refused(%s)", [answer.ticket])
    ledger.coordinator.commit()

    assert route(ledger, "high")["wanted"] is False
    other.commit()
    assert route(ledger, "high")["wanted"] is True


def test_lanes__whose_first_user_gave_up_are_wanted_after_a_refused_doorbell(ledger: Ledger) -> None:
    other = ledger.open("producer")
    other.begin()
    ledger.submit_all([new_job(priority="high")], by=other)
    answer = submitted(ledger, {}, priority="high")
    other.rollback()
    assert route(ledger, "high")["wanted"] is False

    ledger.coordinator.sql("select brokerjobs.outbox_refused(%s)", [answer.ticket])

    assert route(ledger, "high")["wanted"] is True


def test_routes__note_about_once_an_hour_that_they_are_used(ledger: Ledger) -> None:
    submitted(ledger)
    assert route(ledger)["used_at"] is None, "a new route is left to the coordinator that declares it"
    ledger.owner.execute("select brokerjobs.routes_declared(%s)", [[ledger.place.route()]])
    used: list[str] = []
    for minutes in (0, 59, 2, 30, 31):
        ledger.clock.advance(minutes * 60)
        submitted(ledger)
        used.append(route(ledger)["used_at"])

    assert used[0] == used[1] != used[2] == used[3] != used[4]


def test_lanes__note_the_same_and_are_left_alone_until_they_are_declared(ledger: Ledger) -> None:
    def used_after(minutes: int) -> str:
        ledger.clock.advance(minutes * 60)
        submitted(ledger, {}, priority="high")
        return str(route(ledger, "high")["used_at"])

    first = used_after(0)
    assert used_after(120) == first
    ledger.owner.execute("select brokerjobs.routes_declared(%s)", [[ledger.place.route() + ":high"]])
    later = used_after(1)

    assert first != later
    assert used_after(59) == later
    assert used_after(2) != later


def test_routes__that_were_retired_are_wanted_again(ledger: Ledger) -> None:
    ledger.owner.execute("select brokerjobs.routes_declared(%s)", [[ledger.place.route()]])
    submitted(ledger)
    retired = "update brokerjobs.route set wanted = false, retired_at = brokerjobs.clock() where name = %s"
    ledger.owner.execute(retired, [ledger.place.route()])

    submitted(ledger)

    # Its queue may be gone: until it is declared again it counts as retired.
    assert (route(ledger)["wanted"], route(ledger)["retired_at"] is None) == (True, False)


def _fill(ledger: Ledger, upto: int) -> None:
    """Makes routes until the namespace has so many that are wanted."""
    ledger.owner.execute(
        "insert into brokerjobs.route (name, namespace, queue, made_at)"
        " select %(ns)s || '.q.f' || n, %(ns)s, 'f' || n, now() from generate_series(1, %(upto)s - (select count(*)"
        " from brokerjobs.route where namespace = %(ns)s and wanted)) n",
        {"ns": ledger.place.namespace, "upto": upto},
    )


@pytest.mark.parametrize("change", [True, False])
def test_register__refuses_a_type_whose_route_would_be_the_201st(ledger: Ledger, change: bool) -> None:
    _fill(ledger, 199)
    ledger.declare("last", change=change, needs=[needs.has("gpu", "a100")])

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        ledger.declare("more", change=change, needs=[needs.has("gpu", "h100")])

    said = str(caught.value)
    assert f"job type more of namespace {ledger.place.namespace}: its route {ledger.place.route()}." in said
    assert "would be one more than the 200 that namespace" in said
    assert "give job types that need the same the same queue and needs" in said
    assert ledger.declare("same", change=change, needs=[needs.has("gpu", "a100")]).verdict == "added"


def test_register__refuses_other_needs_for_a_known_type_when_there_are_too_many_routes(ledger: Ledger) -> None:
    _fill(ledger, 200)

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="one more than the 200"):
        ledger.declare("work", needs=[needs.has("gpu", "h100")])


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted again", "not wanted"])
def test_register__counts_no_retired_routes_and_none_of_others(ledger: Ledger, wanted: bool) -> None:
    _fill(ledger, 200)
    query: LiteralString = "update brokerjobs.route set wanted = %s, retired_at = now() where name = %s"
    ledger.owner.execute(query, [wanted, ledger.place.namespace + ".q.f1"])

    assert ledger.declare("more", needs=[needs.has("gpu", "h100")]).verdict == "added"


def test_submit__by_a_lane_whose_route_would_be_the_201st_is_refused(ledger: Ledger) -> None:
    submitted(ledger, {}, priority="low")
    _fill(ledger, 200)

    refused = submitted(ledger, {}, priority="high")

    assert refused.verdict == "invalid"
    assert "would be one more than the 200" in (refused.detail or "")
    assert submitted(ledger, {}, priority="low").verdict == "created"
    assert submitted(ledger, {}).verdict == "created"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"needs": [{"kind": "near"}]}, "its kind is none of equal"),
        ({"needs": {}}, "needs are of type object"),
        ({"needs_hash": "../../etc"}, "the hash of its needs ../../etc is not 12 hex digits"),
        ({"needs_hash": None}, "a hash of needs is there if it needs anything of its workers, and only then"),
        ({"needs": []}, "a hash of needs is there if it needs anything of its workers, and only then"),
    ],
)
def test_register__repeats_the_bounds_in_sql(ledger: Ledger, change: dict[str, Any], problem: str) -> None:
    known = {"retry": {"attempts": 1, "factor": 1, "elapsed": 1, "first_delay": 1, "max_delay": 1}}
    known |= {"lease": 1, "time_limit": 1, "placement_deadline": 1}  # type: ignore[dict-item]  # plain data
    terms = {**known, "needs": as_data([needs.has("a", "b")]), "needs_hash": "0" * 12}
    whole, wrong = json.dumps(terms), json.dumps({**terms, **change})

    assert asked(ledger, "select terms_problem(%s)", whole) == [None]
    assert problem in asked(ledger, "select terms_problem(%s)", wrong)[0]


def test_setup__shows_needs_that_differ_and_moves_the_type_to_another_route(ledger: Ledger) -> None:
    before = route(ledger)["name"]
    wanted = [needs.has("gpu", "a100")]

    kept = ledger.declare("work", change=False, needs=wanted)
    changed = ledger.declare("work", needs=wanted)

    assert (kept.verdict, changed.verdict) == ("differs", "changed")
    assert changed.was is not None
    assert changed.wanted is not None
    assert (changed.was["needs"], changed.wanted["needs"]) == ([], as_data(wanted))
    answer = submitted(ledger)
    assert answer.route is not None
    assert answer.route.startswith(f"{before}.")
    assert answer.route == ledger.producer.record(answer.id)["route"]
    assert isinstance(answer.job_id, UUID)


def test_submit__scheduled_by_a_lane_is_rung_there(ledger: Ledger) -> None:
    job = submitted(ledger, {}, priority="high", not_before=timedelta(minutes=1)).id
    ledger.ring_again(job)

    messages, _ = ledger.coordinator.outbox_take()

    assert [one.route for one in messages if one.job_id == job] == [ledger.place.route() + ":high"]
