"""The scripted application in a process whose clock is wrong by BROKERJOBS_TEST_CLOCK_SECONDS.

What brokerjobs takes for the time is replaced, before it is imported: `datetime.now` and `time.time`.  The monotonic
clock runs on as it does on a host whose wall clock is wrong.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from typing import Any

# Whatever registers the class of datetimes has to see the real one.
import psycopg
import psycopg_pool
import pydantic_settings

OFF = dt.timedelta(seconds=float(os.environ["BROKERJOBS_TEST_CLOCK_SECONDS"]))
_Datetime = dt.datetime
_time = time.time


class _IsReal(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Datetime)


class Skewed(dt.datetime, metaclass=_IsReal):
    """A datetime class whose `now` is wrong; what it makes are plain datetimes."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        """The time by the wrong clock."""
        return _Datetime.now(tz) + OFF


def main() -> int:
    """Runs a worker as the settings say, by the wrong clock."""
    dt.datetime = Skewed  # type: ignore[misc]
    time.time = lambda: _time() + OFF.total_seconds()
    from tests.flow import scripted  # noqa: PLC0415  # after the clock

    return scripted.main()


_SEEN = (psycopg, psycopg_pool, pydantic_settings)

if __name__ == "__main__":
    sys.exit(main())
