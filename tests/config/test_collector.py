"""The collector's configuration: whole, in step with its neighbours, and keeping what somebody asks about.

`otelcol validate` is not run, since no package registry has the program; this looks at the structure alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml
from uuid_utils.compat import uuid7

from brokerjobs.telemetry import attributes
from brokerjobs.telemetry.names import SEND
from brokerjobs.telemetry.outcomes import Outcome
from tests.config.expressions import CONFIG

COLLECTOR: Final[dict[str, Any]] = yaml.safe_load((CONFIG / "otel/collector.yaml").read_text())
TEMPO: Final[dict[str, Any]] = yaml.safe_load((CONFIG / "tempo/tempo.yaml").read_text())
PIPELINES: Final[dict[str, dict[str, list[str]]]] = COLLECTOR["service"]["pipelines"]
POLICIES: Final[dict[str, dict[str, Any]]] = {
    one["name"]: one for one in COLLECTOR["processors"]["tail_sampling"]["policies"]
}


@pytest.mark.parametrize("part", ["receivers", "processors", "exporters"])
def test_parts__are_defined_and_used(part: str) -> None:
    used = {name for pipeline in PIPELINES.values() for name in pipeline[part]}

    assert used == COLLECTOR[part].keys()
    assert COLLECTOR["service"]["extensions"] == list(COLLECTOR["extensions"])
    assert COLLECTOR.keys() == {"extensions", "receivers", "processors", "exporters", "service"}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines__limit_memory_first_and_batch_last(name: str) -> None:
    processors = PIPELINES[name]["processors"]

    assert (processors[0], processors[-1]) == ("memory_limiter", "batch")
    assert PIPELINES[name]["receivers"] == ["otlp"]


def test_traces_alone__are_sampled() -> None:
    assert {name for name, one in PIPELINES.items() if "tail_sampling" in one["processors"]} == {"traces"}


def test_outcomes__that_somebody_asks_about_are_all_kept() -> None:
    rule = POLICIES["attempts-that-somebody-asks-about"]["string_attribute"]

    assert rule["key"] == attributes.OUTCOME
    ordinary = {Outcome.ACCEPTED, Outcome.RETRY, Outcome.RELEASED, Outcome.CANCELLED}
    assert set(rule["values"]) == set(Outcome) - ordinary


def test_share_of_jobs__is_taken_by_the_end_of_their_ids() -> None:
    rule = POLICIES["a-share-of-all-jobs"]["string_attribute"]
    (pattern,) = rule["values"]
    kept = sum(re.search(pattern, str(uuid7())) is not None for _ in range(20_000))

    assert rule["key"] == attributes.JOB_ID
    assert rule["enabled_regex_matching"] is True
    assert 150 < kept < 330  # 234 of 20 000 are expected, with a deviation of 15


def test_later_attempts__are_kept_within_a_rate() -> None:
    number, rate = POLICIES["later-attempts"]["and"]["and_sub_policy"]

    assert number["numeric_attribute"]["key"] == attributes.ATTEMPT_NUMBER
    assert number["numeric_attribute"]["min_value"] == 2
    assert rate["rate_limiting"]["spans_per_second"] > 0


def test_publishing__that_failed_is_kept() -> None:
    send, failed = POLICIES["publishing-that-failed"]["and"]["and_sub_policy"]

    assert (send["string_attribute"]["key"], send["string_attribute"]["values"]) == (attributes.OPERATION_NAME, [SEND])
    assert failed["string_attribute"]["key"] == attributes.ERROR_TYPE


def test_policies__do_not_look_at_the_status_of_spans() -> None:
    """Every attempt that is tried again has the status ERROR: one service that is away would keep all."""
    assert "status_code" not in str(COLLECTOR)
    assert all(one["type"] in one for one in POLICIES.values())


def test_addresses__are_those_that_neighbours_ask_and_listen_at() -> None:
    prometheus = yaml.safe_load((CONFIG / "prometheus/prometheus.yml").read_text())
    asked = [
        target
        for job in prometheus["scrape_configs"]
        if job["job_name"] == "brokerjobs"
        for one in job["static_configs"]
        for target in one["targets"]
    ]
    exporters = COLLECTOR["exporters"]
    listens = TEMPO["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    sources = yaml.safe_load((CONFIG / "grafana/provisioning/datasources/brokerjobs.yaml").read_text())["datasources"]

    assert asked == [f"otel-collector:{exporters['prometheus']['endpoint'].rpartition(':')[2]}"]
    assert exporters["otlp/tempo"]["endpoint"] == f"tempo:{listens.rpartition(':')[2]}"
    assert f"http://tempo:{TEMPO['server']['http_listen_port']}" in {one["url"] for one in sources}


def test_files__say_that_they_were_not_run() -> None:
    assert "`otelcol validate` was not run" in (CONFIG / "otel/collector.yaml").read_text()
    assert "not started with this file" in (CONFIG / "tempo/tempo.yaml").read_text()
