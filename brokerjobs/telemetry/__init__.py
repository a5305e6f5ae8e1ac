"""Traces, metrics and logs of jobs and their attempts, on the OpenTelemetry API; called by the others, calls none.

`configure` sets an SDK up from the standard OTEL_ variables, for processes in which nobody else has done so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["configure", "flush"]

if TYPE_CHECKING:
    from brokerjobs.telemetry.configuration import configure
    from brokerjobs.telemetry.flushing import flush


def __getattr__(name: str) -> Any:
    """The public names, imported when they are asked for: names alone are wanted by most."""
    if name == "configure":
        from brokerjobs.telemetry.configuration import configure  # noqa: PLC0415  # see above

        return configure
    if name == "flush":
        from brokerjobs.telemetry.flushing import flush  # noqa: PLC0415

        return flush
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
