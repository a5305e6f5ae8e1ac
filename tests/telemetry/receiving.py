"""A small receiver of OTLP over HTTP, and what it received in a form that tests compare."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource


class Receiver:
    """Takes what is posted to it; while it is `holding` it answers nothing."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.asked.set()
                receiver.may_answer.wait(30)
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's own name
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        else:
            raise AssertionError(path)

    def spans(self) -> list[Span]:
        """All spans received, by their beginning."""
        found = [span for _, _, span in self._spans()]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))

    def scopes(self) -> set[tuple[str, str]]:
        """Name and schema of the scopes whose spans were received."""
        return {(scope.name, schema) for scope, schema, _ in self._spans()}

    def _spans(self) -> Iterable[tuple[InstrumentationScope, str, Span]]:
        for request in self.traces:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        yield scope.scope, scope.schema_url, span

    def resources(self) -> list[dict[str, Any]]:
        """What senders are called."""
        groups: list[Resource] = [r.resource for request in self.traces for r in request.resource_spans]
        groups += [r.resource for request in self.metrics for r in request.resource_metrics]
        return [attributes(group.attributes) for group in groups]

    def latest_metrics(self) -> dict[str, Metric]:
        """Each metric as it was last received."""
        return {
            metric.name: metric
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def span_exporter(receiver: Receiver) -> OTLPSpanExporter:
    return OTLPSpanExporter(f"{receiver.url}/v1/traces", timeout=5)


def attributes(found: Iterable[KeyValue]) -> dict[str, Any]:
    """Attributes as a dictionary, in the order of their names."""
    return {pair.key: value(pair.value) for pair in sorted(found, key=lambda pair: pair.key)}


def value(found: AnyValue) -> Any:
    kind = found.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in found.array_value.values]
    return None if kind is None else getattr(found, kind)


def shapes(spans: Sequence[Span], known: dict[bytes, str] | None = None) -> list[dict[str, Any]]:
    """Spans without times, ids replaced by names: `known` ones, else T1, T2 … for traces; parents and links by both."""
    names = dict(known or {})
    for span in spans:
        names.setdefault(span.trace_id, f"T{1 + sum(name.startswith('T') for name in names.values())}")
        alike = sum(name.partition("#")[0] == span.name for name in names.values())
        names.setdefault(span.span_id, f"{span.name}#{alike + 1}" if alike else span.name)

    def called(trace: bytes, span: bytes) -> str:
        return f"{names.get(trace, trace.hex())}/{names.get(span, span.hex())}"

    return [_shape(span, called, names) for span in spans]


def _shape(span: Span, called: Any, names: dict[bytes, str]) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "name": names[span.span_id],
        "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        "trace": names[span.trace_id],
        "attributes": attributes(span.attributes),
    }
    if span.parent_span_id:
        shape["parent"] = called(span.trace_id, span.parent_span_id)
    if span.links:
        shape["links"] = [{"to": called(k.trace_id, k.span_id), **attributes(k.attributes)} for k in span.links]
    if span.events:
        shape["events"] = [{"name": event.name, **attributes(event.attributes)} for event in span.events]
    if span.status.code:
        shape["status"] = [Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"), span.status.message]
    return shape
