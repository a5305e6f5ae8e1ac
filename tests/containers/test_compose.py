"""docker-compose.yml, run: set-up, jobs through the worker, a coordinator that dies, logins with their rights alone.

Runs with `--servers=containers` alone, as it needs images; test_compose_file.py reads the file in every run.
"""

from __future__ import annotations

import io
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import aiormq
import psycopg
import pytest
from aiormq.exceptions import ChannelAccessRefused
from PIL import Image

from brokerjobs import Submission
from brokerjobs.examples.pictures.contracts import Picture, Thumbnail, app, make_thumbnail
from tests.containers import images
from tests.containers.compose import Stack, goes_on, services
from tests.waiting import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs import SyncClient

pytestmark = pytest.mark.timeout(900)
PATIENCE: Final = timedelta(seconds=90)
PICTURE: Final = Picture(source=Path("/files/blue.png"), target=Path("/files/blue.webp"))
_TAKEN_OVER_SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def stack(pytestconfig: pytest.Config) -> Iterator[Stack]:
    """All services, up and healthy, with a picture in the worker's folder; afterwards nothing of it is left."""
    if pytestconfig.getoption("servers") != "containers":
        pytest.skip("needs images of PostgreSQL and RabbitMQ: `make test-containers`")
    images.build_application()
    made = Stack()
    try:
        made.compose("up", "--detach", "--no-build")
        eventually_sync(lambda: all_is_well(made), PATIENCE.total_seconds())
        put_picture(made)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "5", check=False)


def all_is_well(stack: Stack) -> bool:
    wanted = {name: "healthy" if goes_on(one) else "ended 0" for name, one in services().items()}
    return stack.states() == wanted


def put_picture(stack: Stack) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (900, 600), "navy").save(picture, "PNG")
    worker = stack.containers()["worker"]["Id"]
    command = ["docker", "exec", "-i", worker, "sh", "-c", f"cat > {PICTURE.source}"]
    subprocess.run(command, input=picture.getvalue(), check=True)


@pytest.fixture
def client(stack: Stack) -> Iterator[SyncClient]:
    """A producer on this machine."""
    database_url, broker_url = stack.database_url("orders"), stack.broker_url("orders")
    with app.sync_client(submitted_by="tests", database_url=database_url, broker_url=broker_url) as opened:
        yield opened


def asked(stack: Stack, query: str, *params: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(stack.database_url("postgres"), autocommit=True) as admin:
        return admin.execute(query.encode(), params).fetchall()


def leader(stack: Stack) -> str | None:
    """The coordinator that leads the relay."""
    found = asked(stack, "select holder_name from brokerjobs.service where name = 'relay' and until > now()")
    return found[0][0] if found else None


def test_stack__has_the_servers_that_are_supported(stack: Stack) -> None:
    assert asked(stack, "select current_setting('server_version_num')::integer / 10000") == [(17,)]
    assert stack.compose("exec", "-T", "rabbitmq", "rabbitmqctl", "version").strip().startswith("4.0.")


def test_jobs__are_run_by_the_worker(stack: Stack, client: SyncClient) -> None:
    jobs = client.submit_many(make_thumbnail, [Submission(PICTURE)] * 10)

    made = [job.result(timeout=PATIENCE) for job in jobs]

    assert {(one.width, one.height) for one in made} == {(256, 171)}
    rows = asked(stack, "select job_id from made where job_id = any (%s)", [job.id for job in jobs])
    assert sorted(rows) == sorted((job.id,) for job in jobs)
    claimed = asked(stack, "select distinct login from brokerjobs.attempt")
    assert claimed == [("jobs_worker",)]


def test_coordinator__that_dies_is_followed_by_the_other(stack: Stack, client: SyncClient) -> None:
    first = eventually_sync(lambda: leader(stack), PATIENCE.total_seconds())
    other = {"coordinator-1": "coordinator-2", "coordinator-2": "coordinator-1"}[first]

    stack.compose("kill", "-s", "SIGKILL", first)

    # Nobody but a coordinator rings for this one.
    ((verdict, job),) = asked(
        stack,
        "select verdict, job_id from brokerjobs.submit_v1('brokerjobs-demo', 'picture.thumbnail', %s::jsonb)",
        PICTURE.model_dump_json(),
    )
    assert verdict == "created"
    made: Thumbnail = client.handle(make_thumbnail, UUID(str(job))).result(timeout=PATIENCE)
    assert made.file == PICTURE.target
    assert leader(stack) == other

    stack.compose("up", "--detach", "--no-build")  # set-up runs once more, and changes nothing
    eventually_sync(lambda: all_is_well(stack), PATIENCE.total_seconds())


def test_ports__are_open_on_loopback_alone(stack: Stack) -> None:
    ports: list[dict[str, list[dict[str, str]] | None]] = [
        one["NetworkSettings"]["Ports"] for one in stack.containers().values()
    ]
    bound = {place["HostIp"] for one in ports for places in one.values() for place in places or []}

    assert bound == {"127.0.0.1"}


@pytest.mark.parametrize("user", ["jobs_worker", "orders"])
async def test_users_of_the_broker__declare_nothing(stack: Stack, user: str) -> None:
    connection = await aiormq.connect(stack.broker_url(user))
    channel = await connection.channel()
    with pytest.raises(ChannelAccessRefused):
        await channel.queue_declare("brokerjobs-demo.q.other", durable=True)
    await connection.close()


@pytest.mark.parametrize("login", ["jobs_coordinator_1", "jobs_worker", "orders", "dashboard", "oncall"])
def test_logins_of_the_ledger__read_no_table(stack: Stack, login: str) -> None:
    with psycopg.connect(stack.database_url(login)) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select from brokerjobs.job")
