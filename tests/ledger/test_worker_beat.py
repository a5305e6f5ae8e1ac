"""What a worker's heartbeat is answered: the routes of its types, what is paused, and who leads."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from uuid_utils.compat import uuid7

from brokerjobs.ledger import calls, queues, services
from brokerjobs.ledger.decisions import Request

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def beat(ledger: Ledger, types: tuple[str, ...] = ("work", "once")) -> services.WorkerBeaten:
    process = calls.ProcessIdentity(uuid7(), "worker-a", socket.gethostname(), 1)
    said = services.Heartbeat(
        process, "worker", ledger.place.namespace, list(types), [], "online", ledger.clock.now, {}
    )
    (answer,) = ledger.worker.fetch(services.worker_beat(said))
    return answer


def names(answer: services.WorkerBeaten) -> list[str]:
    return [route["name"] for route in answer.routes]


def test_routes__are_those_of_the_types_with_their_needs_and_lanes(ledger: Ledger) -> None:
    (route,) = beat(ledger).routes

    assert route == {
        "name": ledger.place.route(),
        "queue": "default",
        "lane": "normal",
        "needs": [],
        "types": ["once", "work"],
        "declared": route["declared"],
    }
    assert beat(ledger, ("work",)).routes[0]["types"] == ["work"]
    assert beat(ledger, ("unknown",)).routes == []
    (asked,) = ledger.worker.fetch(services.routes_of_types(ledger.place.namespace, ["work", "once"]))
    assert asked.routes == [route]


def test_routes__are_of_a_lane_once_it_is_used_and_not_after_it_is_retired(ledger: Ledger) -> None:
    high = ledger.place.route() + ":high"
    assert high not in names(beat(ledger))
    ledger.owner.execute("update brokerjobs.route set wanted = true where name = %s", [high])
    assert {route["name"]: route["lane"] for route in beat(ledger).routes}[high] == "high"
    ledger.owner.execute("update brokerjobs.route set retired_at = now() where name = %s", [high])
    assert high not in names(beat(ledger))
    ledger.owner.execute("update brokerjobs.route set wanted = false, retired_at = null where name = %s", [high])


def test_pauses__are_told_until_their_time_is_over(ledger: Ledger) -> None:
    def ask(query: Any) -> Any:
        (row,) = ledger.operator.fetch(query)
        return row.answer

    request = Request(id=uuid4(), by="ann", reason="a test")
    assert beat(ledger).paused_queues == []
    assert (
        ask(queues.pause_queue(ledger.place.namespace, "default", request, timedelta(seconds=60)))["verdict"]
        == "paused"
    )
    assert beat(ledger).paused_queues == ["default"]
    ledger.clock.advance(61)
    assert beat(ledger).paused_queues == []


def test_leaders__are_told_with_the_ledgers_clock(ledger: Ledger) -> None:
    assert beat(ledger).at == ledger.clock.now
    leader = calls.ProcessIdentity(uuid7(), "coordinator-a", socket.gethostname(), 1)
    ledger.coordinator.fetch(services.lead("reaper", leader, 4.0))

    (told,) = [one for one in beat(ledger).who_leads() if one.service == "reaper"]

    assert (told.holder, told.seconds_left) == (leader.id, 4.0)
