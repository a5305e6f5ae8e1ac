# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Never run: mypy and pyright check here what the public door promises to infer.

Each line that must not type-check carries an ignore, which is itself an error once the line does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

from brokerjobs import (
    App,
    Artifact,
    CancelOutcome,
    Client,
    DidNotHappen,
    Finding,
    Happened,
    JobContext,
    JobHandle,
    JobRecord,
    JobStatus,
    JobType,
    ProcessJobContext,
    RetryPolicy,
    ReviewContext,
    StagedArtifact,
    StillUnknown,
    Submission,
    SyncClient,
    SyncJobContext,
    SyncJobHandle,
    needs,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@dataclass(frozen=True)
class Charge:
    cents: int


@dataclass(frozen=True)
class Receipt:
    reference: str


jobs = App("payments")

charge = jobs.job_type(
    "payment.charge",
    Charge,
    Receipt,
    repeatable=False,
    queue="payments",
    lease=timedelta(seconds=30),
    time_limit=timedelta(minutes=2),
    placement_deadline=timedelta(hours=1),
    retry=RetryPolicy(attempts=5, elapsed=timedelta(hours=6)),
    needs=[needs.exclusive("account:{cents}"), needs.has("network", "psp"), needs.at_least("cpu", 2)],
    failures={ConnectionError: "temporary", KeyError: "invalid"},
)
needs.limit("smtp", "ten")  # type: ignore[arg-type]
needs.equal("os", 5)  # type: ignore[arg-type]
assert_type(charge, JobType[Charge, Receipt])
assert_type(charge.decode_payload(b"{}"), Charge)
assert_type(charge.decode_result("{}"), Receipt)
charge.encode_payload(Receipt("r"))  # type: ignore[arg-type]

forget = jobs.job_type("forget", dict[str, int], None, repeatable=True)
assert_type(forget, JobType[dict[str, int], None])

jobs.job_type("no.repeatable", Charge, Receipt)  # type: ignore[call-overload]
jobs.job_type("misspelt", Charge, Receipt, repeatable=True, lesae=timedelta(seconds=1))  # type: ignore[call-overload]
jobs.job("no.repeatable")  # type: ignore[call-arg]


@charge.handler
async def _(order: Charge, ctx: JobContext) -> Receipt:
    assert_type(ctx.attempt.fencing_number, int)
    async with ctx.transaction() as tx:
        await tx.execute("select %s", [order.cents])
        tx.complete(Receipt("r"))
    await ctx.fence(within=object())
    await ctx.complete(Receipt("r"), within=object())
    ctx.check()
    assert_type(await ctx.artifacts.put("a", Path("a"), content_type="text/csv", keep_for=timedelta(1)), Artifact)
    await ctx.artifacts.put("b", pieces())
    await ctx.artifacts.put("c", [b"x", bytearray(b"y")])
    await ctx.artifacts.put("e", 7)  # type: ignore[arg-type]
    return Receipt("r")


async def pieces() -> AsyncGenerator[bytes]:
    yield b"x"


@charge.handler
async def _(order: Charge) -> Receipt:
    return Receipt(str(order.cents))


@charge.handler
def _(order: Charge, ctx: SyncJobContext) -> Receipt:
    with ctx.transaction(complete=False) as tx:
        tx.execute("select %s", [order.cents])
    ctx.fence(within=object())
    ctx.complete(Receipt("r"), within=object())
    assert_type(ctx.artifacts.put("a", b"x"), Artifact)
    with Path("a").open("rb") as file:
        ctx.artifacts.put("b", file)
    ctx.artifacts.put("c", pieces())  # type: ignore[arg-type]
    return Receipt("r")


@charge.handler
def _(order: Charge) -> Receipt:
    return Receipt(str(order.cents))


@charge.handler  # type: ignore[arg-type]
async def _(order: Receipt, ctx: JobContext) -> Receipt:
    return order


@charge.handler  # type: ignore[arg-type]
async def _(order: Charge, ctx: JobContext) -> Charge:
    return order


@charge.handler  # type: ignore[arg-type]
def _(order: Charge, ctx: JobContext) -> Receipt:
    """A sync handler is given a SyncJobContext."""
    return Receipt(str(order.cents))


@charge.handler(pool="process")
def _(order: Charge, ctx: ProcessJobContext) -> Receipt:
    ctx.check()
    assert_type(ctx.artifacts.put("a", "a path"), Artifact)
    ctx.transaction()  # type: ignore[attr-defined]
    return Receipt("r")


@charge.handler(pool="thread")
def _(order: Charge, ctx: SyncJobContext) -> Receipt:
    return Receipt("r")


@charge.handler(pool="process")  # type: ignore[arg-type]
def _(order: Charge, ctx: SyncJobContext) -> Receipt:
    """A process has no transactions."""
    return Receipt("r")


@charge.handler(pool="process")  # type: ignore[arg-type]
async def _(order: Charge) -> Receipt:
    return Receipt("r")


@jobs.job("image.resize", repeatable=True, pool="process")
def resize(image: Charge, ctx: ProcessJobContext) -> Receipt:
    return Receipt("r")


assert_type(resize, JobType[Charge, Receipt])
jobs.job("image.turn", repeatable=True, pool="fibre")  # type: ignore[arg-type]


@jobs.job("image.thumbnail", repeatable=True)
def thumbnail(image: Charge, ctx: SyncJobContext) -> Receipt:
    return Receipt("r")


@jobs.job("image.rotate", repeatable=True)
async def rotate(image: Charge, ctx: JobContext) -> Receipt:
    return Receipt("r")


@jobs.job("image.forget", repeatable=True)
async def forget_image(image: Charge) -> None: ...


@jobs.job("image.count", repeatable=True)
def count(image: Charge) -> int:
    return image.cents


assert_type(thumbnail, JobType[Charge, Receipt])
assert_type(rotate, JobType[Charge, Receipt])
assert_type(forget_image, JobType[Charge, None])
assert_type(count, JobType[Charge, int])

assert_type(Submission(Charge(1), key="order-1", tags={"order": "1"}), Submission[Charge])


async def produce(client: Client, session: object) -> None:
    handle = await client.submit(charge, Charge(1), key="order-1", tags={"order": "1"}, within=session)
    assert_type(handle, JobHandle[Receipt])
    assert_type(await handle.result(timeout=timedelta(seconds=5)), Receipt)
    assert_type(await handle.status(), JobStatus)
    assert_type(await handle.record(), JobRecord)
    assert_type(await handle.cancel(reason="second thoughts"), CancelOutcome)
    many = await client.submit_many(charge, [Submission(Charge(1), key="order-2", deadline=timedelta(hours=1))])
    assert_type(many, list[JobHandle[Receipt]])
    assert_type(await client.find(charge, key="order-1"), JobHandle[Receipt] | None)
    assert_type(client.handle(charge, handle.id), JobHandle[Receipt])
    assert_type(await (await client.submit(forget, {"a": 1})).result(timeout=timedelta(seconds=1)), None)
    [artifact] = await client.artifacts.list(handle, all_attempts=True)
    assert_type(artifact, StagedArtifact)
    assert_type(await client.artifacts.fetch(artifact, to="here"), Path)
    assert_type((await client.artifacts.acknowledge(artifact.id, sha256="", copied_to="")).by, str)
    await client.artifacts.fetch(b"sales.csv", to="here")  # type: ignore[arg-type]
    await client.submit(charge, Charge(1), priority="high", needs=[needs.one_of("gpu", ["a100"])])
    await client.submit(charge, Charge(1), priority="urgent")  # type: ignore[arg-type]
    await client.submit(charge, Charge(1), needs=["gpu=a100"])  # type: ignore[list-item]
    await client.submit(charge, Receipt("r"))  # type: ignore[misc]
    await client.submit_many(charge, [Submission(Receipt("r"))])  # type: ignore[misc]
    await handle.result()  # type: ignore[call-arg]


def produce_in_threads(client: SyncClient, session: object) -> None:
    handle = client.submit(charge, Charge(1), key="order-1", tags={"order": "1"}, within=session)
    assert_type(handle, SyncJobHandle[Receipt])
    assert_type(handle.result(timeout=timedelta(seconds=5)), Receipt)
    assert_type(handle.status(), JobStatus)
    assert_type(handle.record(), JobRecord)
    assert_type(handle.cancel(reason="second thoughts"), CancelOutcome)
    assert_type(handle.announce(), bool)
    many = client.submit_many(charge, [Submission(Charge(1), key="order-2", deadline=timedelta(hours=1))])
    assert_type(many, list[SyncJobHandle[Receipt]])
    assert_type(client.find(charge, key="order-1"), SyncJobHandle[Receipt] | None)
    assert_type(client.handle(charge, handle.id), SyncJobHandle[Receipt])
    assert_type(client.submit(forget, {"a": 1}).result(timeout=timedelta(seconds=1)), None)
    assert_type(client.artifacts.list(handle), list[StagedArtifact])
    assert_type(client.artifacts.fetch(client.artifacts.get(handle.id), to=Path("here")), Path)
    client.artifacts.acknowledge(handle.id, copied_to="")  # type: ignore[call-arg]
    client.submit_many(charge, [Submission(Charge(1), priority="low", needs=(needs.has("dataset", "coco"),))])
    client.submit(charge, Charge(1), priority=1)  # type: ignore[arg-type]
    client.submit(charge, Receipt("r"))  # type: ignore[misc]
    client.submit_many(charge, [Submission(Receipt("r"))])  # type: ignore[misc]
    handle.result()  # type: ignore[call-arg]


assert_type(jobs.client(submitted_by="orders-api"), Client)
jobs.client()  # type: ignore[call-arg]
with jobs.sync_client(submitted_by="orders-web") as orders_web:
    assert_type(orders_web, SyncClient)
jobs.sync_client()  # type: ignore[call-arg]


async def pay(cents: int, key: str) -> Receipt:
    return Receipt(key)


def pay_now(key: str) -> Receipt:
    return Receipt(key)


@charge.handler
async def _(order: Charge, ctx: JobContext) -> Receipt:
    valid = timedelta(hours=24)
    assert_type(
        await ctx.effect("a", lambda key: pay(order.cents, key), returns=Receipt, repeatable=True, key_valid_for=valid),
        Receipt,
    )
    assert_type(await ctx.effect("b", lambda: pay(1, ""), returns=Receipt, repeatable=False), Receipt)
    assert_type(await ctx.effect("c", pay_now, returns=Receipt, repeatable=False, time_limit=valid), Receipt)
    await ctx.effect("d", pay_now, returns=None, repeatable=False, did_not_happen=(ConnectionRefusedError,))
    await ctx.effect("f", pay_now, returns=Receipt)  # type: ignore[call-overload]
    return await ctx.effect("g", pay_now, returns=Receipt, repeatable=False)


@charge.handler
def _(order: Charge, ctx: SyncJobContext) -> Receipt:
    return ctx.effect("charge", pay_now, returns=Receipt, repeatable=True)


@charge.reconciler
async def _(order: Charge, ctx: ReviewContext) -> Finding[Receipt]:
    assert_type(ctx.effects[0].key, str)
    if order.cents:
        return Happened(Receipt("r"), "psp 4711")
    return DidNotHappen("no such charge") if ctx.asked > 1 else StillUnknown()


@charge.reconciler  # type: ignore[arg-type]
def _(order: Charge, ctx: ReviewContext) -> Finding[int]:
    return Happened(1, "psp 4711")
