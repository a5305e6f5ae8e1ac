"""Does this environment say where telemetry is to go, and could it go there?"""

from __future__ import annotations

import os
from importlib import metadata, util
from typing import TYPE_CHECKING, Final

from brokerjobs.cli.checkup.findings import ok, warn
from brokerjobs.telemetry.configuration import is_asked_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.cli.checkup.findings import Finding

# Its spans name channels and messages where ours name jobs; its own switch turns it off.
_CONTRIB: Final = "opentelemetry-instrumentation-aio-pika"
_SWITCH: Final = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"


def telemetry(*, prometheus_port: int | None) -> Iterator[Finding]:
    """What variables and settings ask for, as far as it can be seen from here: processes may have others."""
    asked = is_asked_for() or prometheus_port is not None
    if not asked:
        yield ok("telemetry", "not asked for in this environment")
    elif util.find_spec("opentelemetry.sdk") is None:
        message = "asked for in this environment, and the SDK of OpenTelemetry is not installed"
        yield warn("telemetry", message, "pip install 'brokerjobs[otel]'")
    else:
        yield ok("telemetry", f"goes to {_where(prometheus_port)}, as this environment says")
    if _installed(_CONTRIB) and "aio_pika" not in os.environ.get(_SWITCH, "").replace("-", "_"):
        message = f"{_CONTRIB} {_installed(_CONTRIB)} is installed: where it is active it traces messages beside jobs"
        yield warn("telemetry", message, f"pip uninstall {_CONTRIB}, or {_SWITCH}=aio-pika")


def _where(prometheus_port: int | None) -> str:
    """Without user and password, which the endpoint's URL may have: they are redacted where findings are shown."""
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    return endpoint or (f"Prometheus on port {prometheus_port}" if prometheus_port else "where its variables say")


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
