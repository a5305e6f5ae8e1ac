"""A receiver of OTLP over HTTP, and providers that send to it; this process's own are as before after each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from brokerjobs.telemetry.processors import AttemptSpanProcessor
from brokerjobs.telemetry.sampler import LinkedParentSampler
from brokerjobs.telemetry.tracing import tracing
from tests.telemetry.receiving import Receiver, span_exporter

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    """Sends every span to the receiver; `force_flush` is done when they are there."""
    made = TracerProvider(sampler=LinkedParentSampler(), shutdown_on_exit=False)
    made.add_span_processor(AttemptSpanProcessor())
    made.add_span_processor(BatchSpanProcessor(span_exporter(receiver)))
    tracing.use(made)
    yield made
    tracing.use(None)
    made.shutdown()
