"""The profile `observability` of docker-compose.yml: what it adds, and that nothing is different without it.

Its images are not pulled and its services not started here; `docker-compose config` reads the file where there is one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Final

import pytest
import yaml

from tests.config.expressions import CONFIG, ROOT
from tests.containers import compose, images

ADDED: Final = compose.services("observability")
WITHOUT: Final = compose.services()


def test_profile__has_the_stack_and_nothing_of_it_is_started_without() -> None:
    assert set(ADDED) == {"otel-collector", "prometheus", "alertmanager", "tempo", "grafana"}
    for name, one in WITHOUT.items():
        assert "profiles" not in one, name
        assert not set(one.get("depends_on", {})) & set(ADDED)


@pytest.mark.parametrize("name", ADDED)
def test_service__is_pinned_bound_to_loopback_and_without_rights(name: str) -> None:
    service = ADDED[name]

    assert re.fullmatch(r"\$\{[A-Z_]+_IMAGE:-[a-z/-]+:v?\d+\.\d+\.\d+\}", service["image"])
    assert all(port.startswith("127.0.0.1:${") for port in service.get("ports", []))
    assert service["cap_drop"] == ["ALL"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", ADDED)
def test_volumes__are_declared_or_our_own_files_read_only(name: str) -> None:
    declared = yaml.safe_load(images.COMPOSE_FILE.read_text())["volumes"]
    for volume in ADDED[name]["volumes"]:
        source, _, target = volume.partition(":")
        if source.startswith("./"):
            assert (ROOT / source).exists()
            assert target.endswith(":ro")
        else:
            assert source in declared


def test_programs__are_told_of_files_that_are_mounted() -> None:
    for name, service in ADDED.items():
        mounted = {volume.split(":")[1] for volume in service["volumes"]}
        told = re.findall(r"config(?:\.file)?=(\S+)", " ".join(service.get("command", [])))
        assert set(told) <= mounted, name
        assert len(told) == (0 if name == "grafana" else 1)


def test_rules_and_dashboards__are_mounted_where_they_are_looked_for() -> None:
    rules = yaml.safe_load((CONFIG / "prometheus/prometheus.yml").read_text())["rule_files"]
    (provider,) = yaml.safe_load((CONFIG / "grafana/provisioning/dashboards/brokerjobs.yaml").read_text())["providers"]

    assert [f"./config/prometheus/{one}:/etc/prometheus/{one}:ro" for one in rules] == [
        one for one in ADDED["prometheus"]["volumes"] if "rules" in one
    ]
    assert f"./config/grafana/dashboards:{provider['options']['path']}:ro" in ADDED["grafana"]["volumes"]
    assert "--enable-feature=exemplar-storage" in ADDED["prometheus"]["command"]


def test_addresses__that_the_files_name_are_services() -> None:
    named: set[str] = set()
    for file in (
        "prometheus/prometheus.yml",
        "otel/collector.yaml",
        "grafana/provisioning/datasources/brokerjobs.yaml",
    ):
        text = re.sub(r"#.*", "", (CONFIG / file).read_text())
        named |= set(re.findall(r"(?://|\"|\s)([a-z][a-z-]+):\d{4,5}", text))

    assert named == {"otel-collector", "rabbitmq", "alertmanager", "tempo", "prometheus"}
    assert named <= {*ADDED, *WITHOUT}


def test_our_processes__tell_nobody_unless_they_are_told_to() -> None:
    for name in ("coordinator-1", "coordinator-2", "worker"):
        told = WITHOUT[name]["environment"]
        assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "${OTEL_EXPORTER_OTLP_ENDPOINT:-}"
        assert int(told["OTEL_METRIC_EXPORT_INTERVAL"]) == 15_000
    assert "otel" in re.findall(r"'\.\[([^\]]*)\]'", (CONFIG / "docker/Dockerfile").read_text())[0].split(",")


def test_compose__reads_the_file() -> None:
    program = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    if program[0] == "docker" and (shutil.which("docker") is None or subprocess.call([*program, "version"])):
        pytest.skip("there is no docker-compose: it is in Debian's package docker-compose")
    command = [*program, "--profile", "observability", "config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == {*WITHOUT, *ADDED}
