"""Sets an OpenTelemetry SDK up from its standard variables, for processes in which nobody else has done so."""

from __future__ import annotations

import atexit
import os
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from opentelemetry import metrics, trace

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import secrets
from brokerjobs.telemetry.flushing import flusher
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.sampling import Sampler

_TRUE: Final = "true"
_NONE: Final = "none"
_OTLP: Final = frozenset({"otlp", "otlp_proto_http"})
_QUEUE_SIZE: Final = 16_384  # spans that wait: the SDK's 2 048 are a fraction of a second of a busy worker
_PARENT_BASED: Final = "parentbased_"


def is_asked_for(variables: Mapping[str, str] | None = None) -> bool:
    """Does the environment say where telemetry is to go? Else nothing is listening, most likely."""
    variables = os.environ if variables is None else variables
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == _TRUE:
        return False
    return any(
        value
        for name, value in variables.items()
        if name.startswith("OTEL_EXPORTER_") or name in {"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"}
    )


def configure(*, service_name: str | None = None, instance_id: str | None = None, with_metrics: bool = True) -> bool:
    """Sets tracer and meter providers up from the standard OTEL_ variables; False if nothing was to be done.

    A provider that is set already stays, and so does everything if OTEL_SDK_DISABLED is `true`.  The variables win
    over `service_name`, the name for want of another, and over `instance_id`, a new UUID if it is None.
    `with_metrics=False` is for child processes, of which the parent tells.

    Raises ConfigurationError if the extra `otel` or `prometheus` is not installed, or a variable asks for an exporter
    that is not here.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == _TRUE:
        return False
    wants_traces = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    wants_metrics = with_metrics and type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    if not (wants_traces or wants_metrics):
        return False
    try:
        resource = _resource(service_name, instance_id)
        made = _set_up(resource, traces=wants_traces, measures=wants_metrics)
    except ImportError as error:
        message = (
            f"telemetry cannot be set up: {error}; install 'brokerjobs[otel]', for a Prometheus endpoint "
            "'brokerjobs[prometheus]', or set a provider up yourself"
        )
        raise ConfigurationError(message) from error
    if made:
        _hide_headers()
        tracing.look()
        measuring.look()
        flusher.arm()
        atexit.register(flusher.at_exit)
    return made


def _set_up(resource: Resource, *, traces: bool, measures: bool) -> bool:
    """Sets up what is wanted; what is wrong is raised before anything is."""
    exporters = _span_exporters() if traces else []
    readers = _metric_readers() if measures else []
    decides = sampler()
    if exporters:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from brokerjobs.telemetry.processors import AttemptSpanProcessor  # noqa: PLC0415

        # What waits at the exit is sent by `flusher`, which does not wait for ever.
        provider = TracerProvider(sampler=decides, resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(AttemptSpanProcessor())
        size = None if "OTEL_BSP_MAX_QUEUE_SIZE" in os.environ else _QUEUE_SIZE
        for exporter in exporters:
            provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=size))
        trace.set_tracer_provider(provider)
    if readers:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415

        metrics.set_meter_provider(MeterProvider(readers, resource=resource, shutdown_on_exit=False))
    return bool(exporters or readers)


def _resource(service_name: str | None, instance_id: str | None) -> Resource:
    """What this process is called; the instance differs in each, since two must not write the same series."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415

    said = OTELResourceDetector().detect().attributes
    ours = {"service.instance.id": instance_id or str(uuid.uuid4())}
    if service_name is not None:
        ours["service.name"] = service_name
    return Resource.create({name: value for name, value in ours.items() if name not in said})


def sampler() -> Sampler:
    """As OTEL_TRACES_SAMPLER says; one that follows parents follows links as well, also if nothing is said.

    Raises ConfigurationError if it names none of the standard's, or its argument is no ratio.
    """
    from opentelemetry.sdk.trace import sampling  # noqa: PLC0415

    from brokerjobs.telemetry.sampler import LinkedParentSampler  # noqa: PLC0415

    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    roots: dict[str, Sampler] = {"always_on": sampling.ALWAYS_ON, "always_off": sampling.ALWAYS_OFF}
    root = roots.get(name.removeprefix(_PARENT_BASED))
    if root is None and name.removeprefix(_PARENT_BASED) == "traceidratio":
        root = sampling.TraceIdRatioBased(_ratio())
    if root is None:
        message = (
            f"OTEL_TRACES_SAMPLER: {name!r} is none of always_on, always_off, traceidratio, parentbased_always_on, "
            "parentbased_always_off, parentbased_traceidratio"
        )
        raise ConfigurationError(message)
    return LinkedParentSampler(root) if name.startswith(_PARENT_BASED) else root


def _ratio() -> float:
    text = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        message = f"OTEL_TRACES_SAMPLER_ARG: {text!r} is no number from 0 to 1, which is the part to be kept"
        raise ConfigurationError(message)
    return ratio


def _span_exporters() -> list[SpanExporter]:
    made: list[SpanExporter] = []
    for name in _exporters("OTEL_TRACES_EXPORTER"):
        if name in _OTLP:
            _check_protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

            made.append(OTLPSpanExporter())
        elif name == "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

            made.append(ConsoleSpanExporter())
        else:
            raise _unknown("OTEL_TRACES_EXPORTER", name, "otlp, console, none")
    return made


def _metric_readers() -> list[MetricReader]:
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader  # noqa: PLC0415

    made: list[MetricReader] = []
    for name in _exporters("OTEL_METRICS_EXPORTER"):
        if name in _OTLP:
            _check_protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

            made.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        elif name == "console":
            made.append(PeriodicExportingMetricReader(ConsoleMetricExporter()))
        elif name == "prometheus":
            from brokerjobs.telemetry.prometheus import endpoint  # noqa: PLC0415

            made.append(endpoint())
        else:
            raise _unknown("OTEL_METRICS_EXPORTER", name, "otlp, prometheus, console, none")
    return made


def _exporters(variable: str) -> list[str]:
    """What a variable lists; `otlp` if it says nothing, which is the standard's default."""
    listed = [name.strip().lower() for name in os.environ.get(variable, "").split(",")]
    return [name for name in listed if name and name != _NONE] if any(listed) else ["otlp"]


def _check_protocol(variable: str) -> None:
    for name in (variable, "OTEL_EXPORTER_OTLP_PROTOCOL"):
        said = os.environ.get(name, "").strip().lower()
        if said == "http/protobuf":
            return
        if said:
            message = (
                f"{name}: {said!r} is not spoken here; set http/protobuf, with the port of OTLP over HTTP (4318), "
                "or set a provider up yourself"
            )
            raise ConfigurationError(message)


def _unknown(variable: str, name: str, known: str) -> ConfigurationError:
    return ConfigurationError(f"{variable}: {name!r} is none of {known}; for another one set a provider up yourself")


def _hide_headers() -> None:
    """The values of the exporters' headers are tokens: no log and no record shall show them."""
    for name, value in os.environ.items():
        if name.startswith("OTEL_EXPORTER_OTLP") and name.endswith("HEADERS"):
            texts = [part.partition("=")[2].strip() for part in value.split(",")]
            secrets.own.hide({*texts, *map(unquote, texts)})
