"""`configure` in processes of their own: what it sets up can be set once in a process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, TraceIdRatioBased

from brokerjobs.errors import ConfigurationError
from brokerjobs.telemetry.catalogue import METRICS
from brokerjobs.telemetry.configuration import configure, is_asked_for, sampler
from brokerjobs.telemetry.sampler import LinkedParentSampler
from tests.telemetry.receiving import shapes

if TYPE_CHECKING:
    from tests.telemetry.receiving import Receiver

ROOT = Path(__file__).parents[2]
_ONE_JOB = """
from brokerjobs.telemetry import metrics, spans
from tests.telemetry import subjects
spans.create("payments", "payment.charge", subjects.JOB).answered("created")
metrics.submitted("payment.charge", "created")
"""


def ran(program: str, variables: dict[str, str], complaint: str = "") -> str:
    """What a program printed; none of this process's OTEL_ variables are its own. `complaint`: all that it logged."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment = {**kept, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == complaint
    return done.stdout


def test_configure__sends_all_at_the_exit_and_says_who_it_is(receiver: Receiver) -> None:
    program = (
        "from brokerjobs import telemetry\n"
        "print(telemetry.configure(service_name='payments', instance_id='worker-7'), telemetry.configure())\n"
        f"{_ONE_JOB}\n"
        "from brokerjobs.rules import texts\n"
        "print(texts.redacted('the token was t0psecret'))\n"
    )
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0psecret,x-token=t0psecret",
    }

    assert ran(program, variables).split("\n", 1) == ["True False", "the token was ***\n"]

    assert [span["name"] for span in shapes(receiver.spans())] == ["create payment.charge"]
    assert "brokerjobs.job.submissions" in receiver.latest_metrics()
    for resource in receiver.resources():
        assert resource["service.name"] == "payments"
        assert resource["service.instance.id"] == "worker-7"
        assert resource["telemetry.sdk.language"] == "python"


def test_configure__lets_no_exit_wait_for_a_receiver_that_does_not_answer(receiver: Receiver) -> None:
    receiver.may_answer.clear()
    program = (
        "from brokerjobs.telemetry import configure, flushing\n"
        f"flushing.EXIT_SECONDS = 0.2\nconfigure()\n{_ONE_JOB}"
        "import time; print(time.monotonic())"
    )
    complaint = "what was not sent within 0.2 s is left: spans and metrics wait for their receiver\n"

    left_at = float(ran(program, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}, complaint))

    assert time.monotonic() - left_at < 5.0  # the exporter itself would wait for ten seconds and more
    assert receiver.asked.is_set()


def test_configure__lets_the_variables_win(receiver: Receiver) -> None:
    program = (
        "from brokerjobs.telemetry import configure\n"
        f"configure(service_name='payments', instance_id='worker-7')\n{_ONE_JOB}"
    )
    variables = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.url}/v1/traces",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_SERVICE_NAME": "charges",
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=pod-1,deployment.environment.name=test",
    }

    ran(program, variables)

    [resource] = receiver.resources()
    assert (resource["service.name"], resource["service.instance.id"]) == ("charges", "pod-1")
    assert resource["deployment.environment.name"] == "test"


def test_configure__gives_each_process_an_instance_of_its_own(receiver: Receiver) -> None:
    program = f"from brokerjobs.telemetry import configure\nconfigure()\n{_ONE_JOB}"
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_METRICS_EXPORTER": "none"}

    ran(program, variables)
    ran(program, variables)

    assert len({resource["service.instance.id"] for resource in receiver.resources()}) == 2


@pytest.mark.parametrize(
    "variables", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}]
)
def test_configure__that_has_nothing_to_do_does_nothing(receiver: Receiver, variables: dict[str, str]) -> None:
    program = (
        "from brokerjobs.telemetry import configure\n"
        "print(configure())\n"
        f"{_ONE_JOB}"
        "import threading\n"
        "print(threading.active_count())"
    )

    assert ran(program, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **variables}) == "False\n1\n"
    assert not receiver.traces
    assert not receiver.metrics


def test_configure__leaves_the_users_providers_alone(receiver: Receiver) -> None:
    """The library's spans go where the user's go; it looks for the provider when it has something to say."""
    program = (
        "from opentelemetry import trace, metrics\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter\n"
        "mine = TracerProvider()\n"
        "mine.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))\n"
        "trace.set_tracer_provider(mine); metrics.set_meter_provider(MeterProvider())\n"
        "from brokerjobs.telemetry import configure\n"
        "print(configure(), trace.get_tracer_provider() is mine)\n"
        f"{_ONE_JOB}"
    )

    assert ran(program, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}) == "False True\n"
    assert [span.name for span in receiver.spans()] == ["create payment.charge"]


def test_an_sdk_that_is_disabled__counts_as_none() -> None:
    program = (
        "from opentelemetry import trace, metrics\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "trace.set_tracer_provider(TracerProvider()); metrics.set_meter_provider(MeterProvider())\n"
        "from brokerjobs.telemetry.tracing import tracing\n"
        "from brokerjobs.telemetry.instruments import measuring\n"
        "print(tracing.look(), measuring.look())\n"
    )

    assert ran(program, {"OTEL_SDK_DISABLED": "true"}) == "None None\n"


def test_what_is_always_imported__imports_no_sdk() -> None:
    program = (
        "import sys\n"
        "import brokerjobs.telemetry\n"
        "from brokerjobs.telemetry import attaching, attempts, flushing, logs, metrics, names, spans\n"
        "heavy = ('opentelemetry.sdk', 'opentelemetry.exporter', 'google')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )

    assert ran(program, {}) == "[]\n"


def test_prometheus__serves_the_catalogue_by_the_names_that_it_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    program = (
        "from urllib.request import urlopen\n"
        "from brokerjobs.telemetry import configure\n"
        "from tests.telemetry.test_metrics import everything\n"
        "configure(service_name='payments')\n"
        "everything()\n"
        f"print(urlopen('http://127.0.0.1:{port}/metrics').read().decode())\n"
    )
    variables = {
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }

    page = ran(program, variables)

    series = dict.fromkeys(re.findall(r"^(\w+)(?:\{| )", page, re.MULTILINE))
    ours = {name for name in series if name.startswith(("brokerjobs_", "messaging_"))}
    assert ours == {name for metric in METRICS for name in metric.series}
    for metric in METRICS:
        labels = {
            label
            for line in page.splitlines()
            if line.startswith(metric.series[0] + "{")
            for label in re.findall(r"(\w+)=", line)
        }
        assert labels - {"le"} <= set(metric.labels), metric.name
    assert 'le="30.0"' in page
    assert 'target_info{service_instance_id="' in page


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: 'zipkin' is none of otlp, console, none"),
        ({"OTEL_METRICS_EXPORTER": "statsd"}, "OTEL_METRICS_EXPORTER: 'statsd' is none of otlp, prometheus"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not spoken here; set http"),
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "OTEL_TRACES_SAMPLER: 'jaeger_remote' is none of always_on"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1%"}, "OTEL_TRACES_SAMPLER_ARG: '1%'"),
        ({"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "http"}, "'http' is no port"),
    ],
)
def test_a_variable_that_is_wrong__is_said_and_nothing_is_set_up(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError) as raised:
        configure()

    assert said in str(raised.value)


def test_a_port_that_is_taken__is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(taken.getsockname()[1]))

        with pytest.raises(ConfigurationError, match="each process needs a port of its own"):
            configure()


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("", "", LinkedParentSampler(ALWAYS_ON)),
        ("parentbased_always_on", "", LinkedParentSampler(ALWAYS_ON)),
        ("ParentBased_TraceIdRatio", "0.01", LinkedParentSampler(TraceIdRatioBased(0.01))),
        ("parentbased_always_off", "", LinkedParentSampler(ALWAYS_OFF)),
        ("traceidratio", "0.25", TraceIdRatioBased(0.25)),
        ("traceidratio", "", TraceIdRatioBased(1.0)),
        ("always_off", "", ALWAYS_OFF),
    ],
)
def test_the_sampler__is_the_one_that_is_named_and_follows_links_if_it_follows_parents(
    name: str, argument: str, expected: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)

    assert sampler().get_description() == expected.get_description()


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "payments"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_telemetry__is_asked_for_by_saying_where_it_goes(variables: dict[str, str], *, asked: bool) -> None:
    assert is_asked_for(variables) is asked
