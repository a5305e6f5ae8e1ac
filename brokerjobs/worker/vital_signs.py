"""What a worker tells of itself with each heartbeat, beside who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.broker.codec import READS
from brokerjobs.telemetry import metrics
from brokerjobs.telemetry.instruments import measuring
from brokerjobs.worker.claims import READS_RESOURCES
from brokerjobs.worker.routes import READS_PAUSES

if TYPE_CHECKING:
    from brokerjobs.broker.protocol import Consumer
    from brokerjobs.ledger.clock_watch import ClockWatch
    from brokerjobs.worker.inbox import Inbox
    from brokerjobs.worker.options import Duty, WorkerOptions
    from brokerjobs.worker.running import Running
    from brokerjobs.worker.slots import Slots

_BLOCKED_SECONDS: Final = 2.0  # the lease keeper asks the event loop for a sign of life every second


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """Reads them off the parts of a worker; any thread may ask."""

    duty: Duty
    options: WorkerOptions
    consumer: Consumer
    inbox: Inbox
    slots: Slots
    attempts: Running
    clock: ClockWatch

    def as_data(self, loop_silent_seconds: float) -> dict[str, Any]:
        """The detail of a heartbeat; the event loop gave its last sign of life so long ago."""
        if measuring.instruments is not None:
            self._measure(loop_silent_seconds)
        return {
            "running": len(self.attempts),
            "slots": self.slots.places,
            "free": self.slots.free(),
            "leaked_threads": self.attempts.leaked,
            "unclaimed": len(self.inbox),
            "oldest_unclaimed_seconds": self._oldest_unclaimed(loop_silent_seconds),
            "loop_silent_seconds": round(loop_silent_seconds, 3),
            "clock_skew_seconds": self.clock.skew_seconds,
            "heartbeat_seconds": self.options.heartbeat.total_seconds(),
            # A job that one of these models has refused is not offered to it again.
            "models": {name: job_type.fingerprint for name, job_type in self.duty.types.items()},
            "reads": (*READS, *READS_PAUSES, *READS_RESOURCES),
            "consuming": sorted(self.consumer.consuming),
            "missing": sorted(self.consumer.missing),
            "capabilities": self.options.capabilities.as_data(),
        }

    def _measure(self, loop_silent_seconds: float) -> None:
        skew = self.clock.skew_seconds
        metrics.slots(self.slots.taken())
        metrics.worker_seen(
            loop_lag=loop_silent_seconds,
            clock_offset=None if skew is None else -skew,
            oldest_unsettled=self.attempts.oldest_unsettled(),
        )

    def _oldest_unclaimed(self, loop_silent_seconds: float) -> float | None:
        """The age of the oldest unclaimed delivery; a blocked event loop may have left one unread for as long."""
        unread = loop_silent_seconds if loop_silent_seconds > _BLOCKED_SECONDS else None
        ages = [age for age in (self.inbox.oldest_unclaimed(), unread) if age is not None]
        return round(max(ages), 3) if ages else None
