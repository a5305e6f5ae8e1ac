"""What docker-compose.yml promises, read without Docker; test_compose.py runs it."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.containers import compose, images

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICES: Final = compose.services()
LONG: Final = sorted(name for name, one in SERVICES.items() if compose.goes_on(one))
OURS: Final = sorted(name for name, one in SERVICES.items() if "build" in one)
URL: Final = "BROKERJOBS_ARTIFACTS__URL"
TEXT: Final = images.COMPOSE_FILE.read_text()
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(\w+)(:-([^}]*))?\}")


def test_services__are_those_that_are_promised() -> None:
    assert LONG == ["coordinator-1", "coordinator-2", "postgres", "rabbitmq", "worker"]
    assert set(SERVICES) - set(LONG) == {"rabbitmq-logins", "setup"}


@pytest.mark.parametrize("variable", ["POSTGRES_IMAGE", "RABBITMQ_IMAGE", "PYTHON_IMAGE", "BROKERJOBS_IMAGE"])
def test_images__are_pinned_to_a_release(variable: str) -> None:
    assert re.fullmatch(r"postgres:\d+\.\d+|[a-z]+:\d+\.\d+\.\d+(-[a-z-]+)?", images.pinned(variable))


def test_images__are_named_once_and_as_the_package_is() -> None:
    dockerfile = (images.ROOT / "config/docker/Dockerfile").read_text()

    assert all(_VARIABLE.fullmatch(one["image"]) for one in SERVICES.values())
    assert images.pinned("BROKERJOBS_IMAGE") == f"brokerjobs:{version('brokerjobs')}"
    assert f"ARG PYTHON_IMAGE={images.pinned('PYTHON_IMAGE')}\n" in dockerfile


@pytest.mark.parametrize("name", SERVICES)
def test_ports__are_on_loopback_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert "network_mode" not in SERVICES[name]


@pytest.mark.parametrize("name", LONG)
def test_services_that_go_on__have_a_health_check_and_are_started_again(name: str) -> None:
    service = SERVICES[name]

    assert service["restart"] == "unless-stopped"
    assert set(service["healthcheck"]) >= {"test", "interval", "timeout", "retries", "start_period"}
    if "build" in service:
        assert service["environment"]["BROKERJOBS_WORKER__ALIVE_FILE"] in service["healthcheck"]["test"][1]


def test_artifacts__are_in_one_volume_of_whoever_stages_and_sweeps() -> None:
    sharing = {name for name, one in SERVICES.items() if "artifacts:/artifacts" in one.get("volumes", [])}
    told = {name for name, one in SERVICES.items() if one.get("environment", {}).get(URL) == "/artifacts"}

    assert sharing == told == {"coordinator-1", "coordinator-2", "worker"}
    dockerfile = (images.ROOT / "config/docker/Dockerfile").read_text()
    assert "install -d -o brokerjobs -m 700 /artifacts" in dockerfile


def test_services_that_end__are_waited_for() -> None:
    waited_for = {
        (name, how["condition"]) for one in SERVICES.values() for name, how in one.get("depends_on", {}).items()
    }

    assert {name for name, how in waited_for if how == "service_completed_successfully"} == set(SERVICES) - set(LONG)
    assert {how for name, how in waited_for if name in LONG} == {"service_healthy"}


@pytest.mark.parametrize("name", sorted({*OURS} - {"setup"}))
def test_our_processes__start_after_setup(name: str) -> None:
    assert SERVICES[name]["depends_on"]["setup"] == {"condition": "service_completed_successfully"}


def test_our_processes__have_logins_of_their_own_and_least_rights() -> None:
    logins = {name: set(re.findall(r"//(\w+):", "".join(SERVICES[name]["environment"].values()))) for name in OURS}

    assert logins == {
        "setup": {"jobs_owner"},
        "coordinator-1": {"jobs_coordinator_1"},
        "coordinator-2": {"jobs_coordinator_2"},
        "worker": {"jobs_worker"},
    }
    assert "--no-coordinator" in SERVICES["worker"]["command"]
    for name in OURS:
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["read_only"] is True


def test_setup__grants_every_kind_to_a_login_that_is_made() -> None:
    logins = (images.ROOT / "config/docker/logins-of-postgres.sh").read_text()
    granted = dict(re.findall(r"--grant=(\w+)=(\w+)", " ".join(SERVICES["setup"]["command"])))

    assert granted.keys() == {"producer", "worker", "coordinator", "reader", "operator"}
    for login in granted.values():
        assert f"create role {login} login password" in logins


def test_passwords__come_from_variables_with_defaults_and_nowhere_else() -> None:
    found = {name: default for name, _, default in _VARIABLE.findall(TEXT) if name.endswith("_PASSWORD")}

    assert set(found.values()) == {"development"}
    assert len(found) == 10
    assert all(url.startswith("${") for url in re.findall(r"//\w+:([^@]+)@", TEXT))


def test_variables__are_explained() -> None:
    page = (images.ROOT / "docs/how-to/run-with-docker-compose.md").read_text()

    assert {name for name, *_ in _VARIABLE.findall(TEXT)} <= set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page))
    assert f"FROM {images.pinned('BROKERJOBS_IMAGE')}\n" in page


@pytest.mark.parametrize("name", SERVICES)
def test_volumes__are_declared_or_files_of_the_project(name: str) -> None:
    declared = re.findall(r"^  (\w+):$", TEXT.rpartition("\nvolumes:\n")[2], re.MULTILINE)
    for volume in SERVICES[name].get("volumes", []):
        source, _, target = volume.partition(":")
        if source.startswith("./"):
            assert (images.ROOT / source).is_file()
            assert target.endswith(":ro")
        else:
            assert source in declared


def test_dockerfile__copies_what_is_there_and_not_ignored() -> None:
    kept = [line[1:] for line in (images.ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert sorted(_copied()) == sorted(kept)
    assert all((images.ROOT / name).exists() for name in kept)


def _copied() -> Iterator[Any]:
    for line in (images.ROOT / "config/docker/Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            yield from line.split()[1:-1]
