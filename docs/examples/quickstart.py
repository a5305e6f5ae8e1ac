"""The example of the README, from the line after the rule on: contract, handler and producer in one file.

Copied into `shop.py` it needs `create table booking (order_number text, cents integer)`.  Then run
`brokerjobs setup shop:app`, `brokerjobs worker shop:app` and `python shop.py`, with BROKERJOBS_DATABASE_URL and
BROKERJOBS_BROKER_URL set.
"""

# ruff: noqa: D101, D103  # the README explains them

from __future__ import annotations

# ----------------------------------------------------------------------------------------------------------------------
import asyncio
from datetime import timedelta

from pydantic import BaseModel

from brokerjobs import App, JobContext


class Order(BaseModel):
    number: str
    cents: int


app = App("shop")


@app.job("order.book", repeatable=True, lease=timedelta(seconds=30))
async def book(order: Order, ctx: JobContext) -> str:
    async with ctx.transaction() as tx:  # your rows and the job's result: one commit, or none
        await tx.execute("insert into booking values (%s, %s)", [order.number, order.cents])
        tx.complete(f"booked {order.number}")
    return f"booked {order.number}"


async def main() -> None:
    async with app.client(submitted_by="shop-api") as client:
        job = await client.submit(book, Order(number="991", cents=1250), key="order-991")
        print(await job.result(timeout=timedelta(seconds=30)))


if __name__ == "__main__":
    asyncio.run(main())
