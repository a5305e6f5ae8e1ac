"""A probe that a worker of the previous release gets after all: it was on its way when the release was taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from brokerjobs.broker import codec, names
from brokerjobs.broker.publisher import Publisher
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from tests.rolling.releases import Look, Release

pytestmark = pytest.mark.timeout(120)


async def test_probe__at_a_worker_of_the_previous_release_harms_nothing_and_has_come_back(
    previous: Release, this: Release, look: Look
) -> None:
    this.setup()
    route, ticket = names.route_name(look.namespace, "default"), uuid4()
    with psycopg.connect(look.database.owner_url) as owner:
        owner.execute("insert into brokerjobs.probe (ticket, route, made_at) values (%s, %s, now())", [ticket, route])
    publisher = Publisher(look.broker_url)
    await publisher.publish([codec.probe(ticket=ticket, namespace=look.namespace, route=route)])
    await publisher.close()

    with this.coordinator(), previous.worker("previous-1"):
        eventually_sync(lambda: look.rows("select returned_by from brokerjobs.probe where returned_at is not null"), 30)
        jobs = previous.produce(2)
        look.wait_until_succeeded(jobs)

    (probe,) = look.rows("select returned_by from brokerjobs.probe")
    (kept,) = look.rows("select worker, ticket, job_id, reason from brokerjobs.quarantine")
    assert probe["returned_by"] == "previous-1"
    assert (kept["worker"], kept["ticket"], kept["job_id"]) == ("previous-1", ticket, None)
    assert kept["reason"].startswith("its type is 'brokerjobs.probe'")
