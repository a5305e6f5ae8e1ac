"""An endpoint that Prometheus scrapes, of one process; without exemplars, which OTLP has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry, start_http_server

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader

_HOST: Final = "OTEL_EXPORTER_PROMETHEUS_HOST"
_PORT: Final = "OTEL_EXPORTER_PROMETHEUS_PORT"


def endpoint() -> MetricReader:
    """Serves `/metrics` where the standard's variables say, by default on localhost:9464.

    Raises ConfigurationError if that is no port, or is taken.
    """
    host = os.environ.get(_HOST, "").strip() or "localhost"
    text = os.environ.get(_PORT, "").strip() or "9464"
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65_536:
        message = f"{_PORT}: {text!r} is no port, a number from 1 to 65535"
        raise ConfigurationError(message)
    registry = CollectorRegistry()  # of its own: the global one has what others count
    try:
        start_http_server(int(text), host, registry)
    except OSError as error:
        why = error.strerror or str(error)
        message = f"{_PORT}: Prometheus cannot be served on {host}:{text}: {why}; each process needs a port of its own"
        raise ConfigurationError(message) from error
    return PrometheusMetricReader(scope_info_enabled=False, registry=registry)
