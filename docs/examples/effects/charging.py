"""An external service with idempotency keys: the same key again is the same charge.

brokerjobs setup brokerjobs.examples.effects.charging:app
PAYMENTS_URL=http://127.0.0.1:8080 brokerjobs worker brokerjobs.examples.effects.charging:app
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from brokerjobs import App, DidNotHappen, Happened, StillUnknown

if TYPE_CHECKING:
    from brokerjobs import Finding, ReviewContext, SyncJobContext

app = App("payments")


class Order(BaseModel):
    """What is to be paid."""

    number: str
    cents: int


class Receipt(BaseModel):
    """What the service says of a charge."""

    reference: str
    cents: int


charge = app.job_type("payment.charge", Order, Receipt, repeatable=True, lease=timedelta(seconds=30))


@charge.handler
def _(order: Order, ctx: SyncJobContext) -> Receipt:
    """Charges once, however often the job runs: an unknown charge is asked for again, with the same key."""

    def call(key: str) -> Receipt:
        return Receipt(**_ask("POST", "/charges", {"cents": order.cents}, key))

    return ctx.effect(
        "charge",
        call,
        returns=Receipt,
        repeatable=True,
        key_valid_for=timedelta(hours=24),  # the service forgets keys after a day
        time_limit=timedelta(seconds=10),
        did_not_happen=(ConnectionRefusedError,),
    )


@charge.reconciler
def _(order: Order, ctx: ReviewContext) -> Finding[Receipt]:
    """Asks the service what became of a charge whose key it may have forgotten."""
    if len(ctx.effects) != 1:
        return StillUnknown(f"not only the charge of order {order.number} is unknown")
    (effect,) = ctx.effects
    found = _ask("GET", f"/charges/{effect.key}")
    if found:
        return Happened(Receipt(**found), found["reference"])
    return DidNotHappen(f"no charge has the key {effect.key}")


def _ask(method: str, path: str, body: dict[str, Any] | None = None, key: str = "") -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310  # the address is a setting
        os.environ["PAYMENTS_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    try:
        with urllib.request.urlopen(request, timeout=8) as answer:  # noqa: S310  # ditto
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return {}
        raise
    except urllib.error.URLError as error:
        # Nobody listened: surely nothing happened.  A time-out says nothing of the sort, and stays as it is.
        raise error.reason if isinstance(error.reason, ConnectionRefusedError) else error from None
