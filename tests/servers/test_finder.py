from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from brokerjobs.errors import ConfigurationError
from brokerjobs.servers import containers, finder, packages, rabbitmq
from brokerjobs.servers.finder import Source
from brokerjobs.servers.memory import PrivateMemoryBroker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def not_installed() -> NoReturn:
    raise ConfigurationError("rabbitmq-server is not installed")


def no() -> bool:
    return False


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without RabbitMQ, package manager and Docker."""
    monkeypatch.delenv("BROKERJOBS_DEMO_BROKER_URL", raising=False)
    monkeypatch.setattr(rabbitmq, "find_scripts", not_installed)
    monkeypatch.setattr(packages, "can_install", no)
    monkeypatch.setattr(containers, "can_run", no)


def test_find_servers__takes_urls_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BROKERJOBS_DEMO_DATABASE_URL", "postgresql://here/")
    monkeypatch.setenv("BROKERJOBS_DEMO_BROKER_URL", "amqp://here/")

    with finder.find_servers(tmp_path) as servers:
        assert (servers.database_url, servers.broker_url) == ("postgresql://here/", "amqp://here/")

    assert list(tmp_path.iterdir()) == []


def test_find_servers__never_takes_production_urls(
    monkeypatch: pytest.MonkeyPatch, bare_machine: None, tmp_path: Path
) -> None:
    monkeypatch.setenv("BROKERJOBS_BROKER_URL", "amqp://production/")

    with pytest.raises(ConfigurationError, match="there is no RabbitMQ"):
        finder.find_rabbitmq(tmp_path)


def test_find_rabbitmq__says_what_to_install(bare_machine: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        finder.find_rabbitmq(tmp_path, prefix="BROKERJOBS_TEST_ABSENT")

    assert len(caught.value.problems) == 3
    assert "apt-get install rabbitmq-server" in caught.value.problems[0]
    assert containers.IMAGE in caught.value.problems[1]
    assert "BROKERJOBS_TEST_ABSENT_BROKER_URL" in caught.value.problems[2]


def yes() -> bool:
    return True


def refuse(_: object) -> NoReturn:
    raise ConfigurationError("no such package")


def test_find_broker__takes_the_one_in_memory_where_there_is_no_other(bare_machine: None, tmp_path: Path) -> None:
    said: list[str] = []

    broker = finder.find_broker(tmp_path, said.append)
    broker.stop()

    assert isinstance(broker, PrivateMemoryBroker)
    assert said == [], "whoever chose it has said so"


def test_choose_broker__prefers_what_is_there_to_what_has_to_be_brought(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert finder.choose_broker() is Source.MEMORY
    monkeypatch.setattr(containers, "can_run", yes)
    assert finder.choose_broker() is Source.DOCKER
    monkeypatch.setattr(packages, "can_install", yes)
    assert finder.choose_broker() is Source.PACKAGES
    monkeypatch.setattr(rabbitmq, "find_scripts", lambda: tmp_path)
    assert finder.choose_broker() is Source.INSTALLED
    monkeypatch.setenv("BROKERJOBS_DEMO_BROKER_URL", "amqp://here/")
    assert finder.choose_broker() is Source.GIVEN


def test_find_broker__says_why_it_does_not_take_what_it_tried(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "can_install", yes)
    monkeypatch.setattr(packages, "install_rabbitmq", refuse)
    monkeypatch.setattr(containers, "can_run", yes)
    monkeypatch.setattr(containers.ContainerRabbitMQ, "start", lambda: refuse(None))
    said: list[str] = []

    broker = finder.find_broker(tmp_path, said.append)
    broker.stop()

    assert isinstance(broker, PrivateMemoryBroker)

    assert said[0] == "RabbitMQ could not be had by apt-get: no such package"
    assert "starting the image" in said[1]
    assert said[2] == "RabbitMQ could not be had by Docker: no such package"
    assert said[3].startswith("in-memory broker, because RabbitMQ cannot be had")
    assert len(said) == 4


def test_find_broker__takes_no_other_for_an_installed_one_that_does_not_start(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is wrong with it is more use than a demo without it."""
    monkeypatch.setattr(rabbitmq, "find_scripts", lambda: tmp_path)
    monkeypatch.setattr(rabbitmq.PrivateRabbitMQ, "start", refuse)

    with pytest.raises(ConfigurationError, match="no such package"):
        finder.find_broker(tmp_path)


def test_why_memory__says_how_to_have_rabbitmq() -> None:
    for way in finder.ways_to_rabbitmq("BROKERJOBS_DEMO"):
        assert way in finder.why_memory()


@pytest.mark.parametrize("machine_has_a_policy", [False, True])
def test_install__says_so_first_and_starts_no_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine_has_a_policy: bool
) -> None:
    policy = tmp_path / "policy-rc.d"
    if machine_has_a_policy:
        policy.write_text("theirs")
    happened: list[str] = []

    def apt_get(arguments: Sequence[str]) -> None:
        happened.append(f"{arguments[0]} under {policy.read_text()!r}")

    monkeypatch.setattr(packages, "_POLICY", policy)
    monkeypatch.setattr(packages, "_apt_get", apt_get)

    packages.install_rabbitmq(lambda text: happened.append(text[:24]))

    text = "theirs" if machine_has_a_policy else "#!/bin/sh\nexit 101\n"
    assert happened[:3] == ["RabbitMQ is not installed"[:24], f"update under {text!r}", f"install under {text!r}"]
    assert policy.exists() == machine_has_a_policy


def test_install__names_the_command_that_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt_get = tmp_path / "apt-get"
    apt_get.write_text("#!/bin/sh\necho 'no such package' >&2\nexit 100\n")
    apt_get.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(packages, "_POLICY", tmp_path / "policy-rc.d")

    with pytest.raises(ConfigurationError, match=r"apt-get update.*exit code 100[\s\S]*no such package"):
        packages.install_rabbitmq(lambda _: None)

    assert not (tmp_path / "policy-rc.d").exists()
