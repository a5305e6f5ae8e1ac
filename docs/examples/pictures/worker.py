"""The handlers: `brokerjobs worker brokerjobs.examples.pictures.worker:app`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerjobs.examples.pictures import sales, thumbnail
from brokerjobs.examples.pictures.checkpoints import Where, async_checkpoint, checkpoint
from brokerjobs.examples.pictures.contracts import (
    Picture,
    Report,
    Sales,
    Thumbnail,
    app,
    make_thumbnail,
    rebuild_report,
)
from brokerjobs.examples.pictures.journal import write_line

if TYPE_CHECKING:
    from brokerjobs import JobContext, SyncJobContext

__all__ = ["app"]

# A plain table: no unique constraint, no "on conflict". One row a job is the fence's doing.
_INSERT: Final = "insert into made (job_id, attempt, what, data) values (%s, %s, %s, %s)"


@make_thumbnail.handler
def thumbnail_of(picture: Picture, ctx: SyncJobContext) -> Thumbnail:
    """A sync handler, run in a thread."""
    write_line(f"thumbnail of {picture.source.name}", ctx)
    made = thumbnail.shrink(picture.source, picture.target)
    with ctx.transaction() as tx:
        tx.execute(_INSERT, [ctx.job_id, ctx.attempt.number, "thumbnail", made.model_dump_json()])
        tx.complete(made)  # sent by the end of this block: the row and the result are committed together
        checkpoint(Where.BEFORE_COMMIT, ctx)
    checkpoint(Where.AFTER_COMMIT, ctx)
    return made


@rebuild_report.handler
async def report_of(source: Sales, ctx: JobContext) -> Report:
    """An async handler."""
    write_line(f"report of {source.source.name}", ctx)
    made = sales.summarize(source.source, source.target)
    async with ctx.transaction() as tx:
        await tx.execute(_INSERT, [ctx.job_id, ctx.attempt.number, "report", made.model_dump_json()])
        tx.complete(made)
        await async_checkpoint(Where.BEFORE_COMMIT, ctx)
    await async_checkpoint(Where.AFTER_COMMIT, ctx)
    return made
