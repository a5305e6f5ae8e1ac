"""A store that can compare a number: Redis refuses what a superseded attempt writes.

The fencing number stands beside the value, and a Lua script, which Redis runs as one step, compares before it writes.

    brokerjobs setup brokerjobs.examples.effects.redis_store:app
    REDIS_URL=redis://127.0.0.1:6379 brokerjobs worker brokerjobs.examples.effects.redis_store:app
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic import BaseModel

from brokerjobs import App, ConfigurationError, StaleAttempt

if TYPE_CHECKING:
    from brokerjobs import SyncJobContext

app = App("prices")


class Price(BaseModel):
    """What an article costs from now on."""

    article: str
    cents: int


class Redis(Protocol):
    """What is needed of a client; `redis.Redis` has it."""

    def eval(self, script: str, numkeys: int, /, *keys_and_args: str) -> Any:
        """Runs a Lua script."""
        ...


# Fencing numbers have fewer than 16 digits until the year 2255: Lua's numbers hold them exactly.
SET_IF_NEWEST: Final = """
local shown = tonumber(redis.call('hget', KEYS[1], 'fencing_number') or '0')
if tonumber(ARGV[2]) < shown then
  return 0
end
redis.call('hset', KEYS[1], 'value', ARGV[1], 'fencing_number', ARGV[2])
return 1
"""


def set_if_newest(client: Redis, key: str, value: str, fencing_number: int) -> bool:
    """Writes `value` unless an attempt with a larger number has written; answers whether it did."""
    return bool(client.eval(SET_IF_NEWEST, 1, key, value, str(fencing_number)))


def connect() -> Redis:
    """A client of the server that REDIS_URL names; raises ConfigurationError without the package `redis`."""
    try:
        redis = importlib.import_module("redis")
    except ImportError as error:
        message = "this example needs the package `redis`: pip install redis"
        raise ConfigurationError(message) from error
    return cast("Redis", redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")))


@app.job("price.publish", repeatable=True)
def publish(price: Price, ctx: SyncJobContext) -> int:
    """Publishes a price; the attempt that was superseded cannot overwrite what its successor wrote."""
    number = ctx.attempt.fencing_number
    if not set_if_newest(connect(), f"price:{price.article}", str(price.cents), number):
        raise StaleAttempt(job_id=ctx.job_id, attempt_id=ctx.attempt.id, fencing_number=number, reason="newer_attempt")
    return price.cents
