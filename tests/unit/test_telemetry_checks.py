"""What the doctor says of telemetry, by environment and installed packages."""

from __future__ import annotations

import os
from importlib import metadata, util
from typing import TYPE_CHECKING

import pytest

from brokerjobs.cli.checkup.findings import Level
from brokerjobs.cli.checkup.telemetry_checks import telemetry

if TYPE_CHECKING:
    from brokerjobs.cli.checkup.findings import Finding


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    installed(monkeypatch, contrib=False)


def installed(monkeypatch: pytest.MonkeyPatch, *, contrib: bool) -> None:
    def version(name: str) -> str:
        if contrib:
            return "0.65b0"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)


def said(port: int | None = None) -> list[Finding]:
    return list(telemetry(prometheus_port=port))


def test_telemetry__that_nobody_asked_for_is_fine() -> None:
    (one,) = said()

    assert (one.level, one.message) == (Level.OK, "not asked for in this environment")


def test_telemetry__says_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "goes to Prometheus on port 9464" in said(9464)[0].message
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert "goes to http://collector:4318" in said()[0].message


def test_telemetry__without_its_library_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")

    def nowhere(_name: str) -> None: ...

    monkeypatch.setattr(util, "find_spec", nowhere)

    (one,) = said()

    assert (one.level, one.next) == (Level.WARN, "pip install 'brokerjobs[otel]'")


def test_telemetry__warns_of_the_contrib_instrumentation_unless_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, contrib=True)
    _, one = said()
    assert one.level is Level.WARN
    assert "opentelemetry-instrumentation-aio-pika 0.65b0 is installed" in one.message

    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "requests,aio-pika")
    assert len(said()) == 1
