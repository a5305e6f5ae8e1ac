"""The instruments of the catalogue, made once a provider is there.

Counters are plain numbers of ours that are read when metrics are collected: an SDK's own `add` takes four microseconds,
and there are several for every job.  Gauges are read so, too: one that nobody renews is exported no more.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry import metrics
from opentelemetry.metrics import Observation

from brokerjobs.telemetry.catalogue import METRICS, Instrument, Metric, Source
from brokerjobs.telemetry.names import SCHEMA_URL, SCOPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import Histogram, Meter

Values: TypeAlias = tuple[str, ...]
"""The values of a metric's attributes, in the catalogue's order; "" for one that is absent."""

STALE_SECONDS: Final = 60.0
"""After so long without a look of the monitor its gauges are exported no more: another process may be the monitor."""


def attributes_of(metric: Metric, values: Values) -> dict[str, str]:
    """The attributes of one series."""
    return {name: value for name, value in zip(metric.attributes, values, strict=True) if value}


class Instruments:
    """All instruments of one meter, with what they are to say."""

    def __init__(self, meter: Meter, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._totals: dict[str, dict[Values, int]] = {}
        self._gauges: dict[str, Mapping[Values, float]] = {}
        self._looked_at = 0.0
        self._histograms: dict[str, Histogram] = {}
        self._series: dict[tuple[str, Values], dict[str, str]] = {}
        for metric in METRICS:
            self._make(meter, metric)

    def _make(self, meter: Meter, metric: Metric) -> None:
        about = {"name": metric.name, "unit": metric.unit, "description": metric.description}
        match metric.instrument:
            case Instrument.HISTOGRAM:
                self._histograms[metric.name] = meter.create_histogram(
                    **about, explicit_bucket_boundaries_advisory=list(metric.buckets)
                )
            case Instrument.COUNTER:
                self._totals[metric.name] = {}
                meter.create_observable_counter(**about, callbacks=[lambda _: self._counted(metric)])
            case Instrument.UP_DOWN_COUNTER:
                meter.create_observable_up_down_counter(**about, callbacks=[lambda _: self._gauged(metric)])
            case Instrument.GAUGE:
                meter.create_observable_gauge(**about, callbacks=[lambda _: self._gauged(metric)])

    def add(self, metric: Metric, values: Values, count: int = 1) -> None:
        """Counts; the event loop and the lease keeper's thread both do."""
        totals = self._totals[metric.name]
        with self._lock:
            totals[values] = totals.get(values, 0) + count

    def record(self, metric: Metric, values: Values, seconds: float) -> None:
        """Records a duration; within the attempt's context it gets an exemplar that leads to the trace."""
        attributes = self._series.get((metric.name, values))
        if attributes is None:
            attributes = self._series[metric.name, values] = attributes_of(metric, values)
        self._histograms[metric.name].record(seconds, attributes)

    def gauge(self, metric: Metric, readings: Mapping[Values, float]) -> None:
        """What this process says of itself from now on, in place of what it said before."""
        self._gauges[metric.name] = readings

    def monitored(self, readings: Mapping[Metric, Mapping[Values, float]]) -> None:
        """What the monitor found; all of its gauges that are not among these are exported no more."""
        with self._lock:
            self._looked_at = self._monotonic()
            for metric in METRICS:
                if metric.source is Source.MONITOR:
                    self._gauges[metric.name] = readings.get(metric, {})

    def resigned(self) -> None:
        """This process is the monitor no more."""
        self.monitored({})

    def _counted(self, metric: Metric) -> Iterable[Observation]:
        with self._lock:
            totals = list(self._totals[metric.name].items())
        return [Observation(total, attributes_of(metric, values)) for values, total in totals]

    def _gauged(self, metric: Metric) -> Iterable[Observation]:
        with self._lock:
            stale = metric.source is Source.MONITOR and self._monotonic() - self._looked_at > STALE_SECONDS
            readings = {} if stale else dict(self._gauges.get(metric.name, {}))
        return [Observation(value, attributes_of(metric, values)) for values, value in readings.items()]


class Measuring:
    """The instruments of this process, once a provider is there; of the global one, or of the one given to `use`."""

    def __init__(self) -> None:
        self.instruments: Instruments | None = None
        """None while there is no provider: whoever reads it then measures nothing."""

    def look(self) -> Instruments | None:
        """Looks for a provider, unless one was found: about a microsecond."""
        if self.instruments is None:
            self.use(metrics.get_meter_provider())
        return self.instruments

    def use(self, provider: metrics.MeterProvider | None) -> None:
        """Uses this provider from now on; none: until `look` finds one."""
        self.instruments = None
        if provider is None or type(provider).__name__ in _NOBODY:
            return
        meter = provider.get_meter(SCOPE, schema_url=SCHEMA_URL)
        if not isinstance(meter, metrics.NoOpMeter):  # as of an SDK that OTEL_SDK_DISABLED has turned off
            self.instruments = Instruments(meter)


# The proxy that stands for no provider has no public name.
_NOBODY: Final = frozenset({"_ProxyMeterProvider", "NoOpMeterProvider"})

measuring: Final = Measuring()
"""Those of this process."""
