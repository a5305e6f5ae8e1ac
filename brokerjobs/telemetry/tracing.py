"""Is anybody there who takes spans? Asked once a batch, so that nothing is done for a job where nobody is."""

from __future__ import annotations

import time
from typing import Final

from opentelemetry import trace

from brokerjobs.telemetry.names import SCHEMA_URL, SCOPE

_NOBODY: Final = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


class Tracing:
    """The tracer of this process, once a provider is there; the global one, or the one given to `use`."""

    def __init__(self) -> None:
        self.tracer: trace.Tracer | None = None
        """None while there is no provider: whoever reads it then makes no span."""

    def look(self) -> trace.Tracer | None:
        """Looks for a provider, unless one was found: under a microsecond."""
        if self.tracer is None:
            self.use(trace.get_tracer_provider())
        return self.tracer

    def use(self, provider: trace.TracerProvider | None) -> None:
        """Uses this provider from now on; none: until `look` finds one."""
        self.tracer = None
        if provider is None or isinstance(provider, _NOBODY):
            return
        tracer = provider.get_tracer(SCOPE, schema_url=SCHEMA_URL)
        if not isinstance(tracer, trace.NoOpTracer):  # as of an SDK that OTEL_SDK_DISABLED has turned off
            self.tracer = tracer

    def now(self) -> int:
        """When something begins of which a span is made at its end: nanoseconds since 1970, 0 if nobody takes spans."""
        return 0 if self.tracer is None else time.time_ns()


tracing: Final = Tracing()
"""That of this process."""
