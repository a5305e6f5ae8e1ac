"""`brokerjobs artifacts orphans`: what stores have of which the ledger knows nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brokerjobs.cli import artifact_page, decision, options, output
from brokerjobs.cli.moments import rfc3339, rough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerjobs.ledger.database import LedgerConnection
    from brokerjobs.ledger.sweeping import Orphan

_COMMAND: Final = "brokerjobs artifacts"
_PAGE: Final = 1_000  # as many as one statement of the ledger answers
_HEADERS: Final = ("PATH", "STORE", "SIZE", "FIRST SEEN", "LAST SEEN")


def orphans(
    *,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", show_default=False, help="Only those of this store.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    database_url: options.DatabaseUrl = None,
    output_format: Annotated[
        output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
    ] = None,
) -> None:
    """List objects that the sweeper has seen in stores and of which the ledger knows nothing, the first seen first."""
    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    ledger = decision.ledger_of(database_url, _COMMAND)
    now, count = datetime.now(UTC), 0
    rows: list[tuple[str, ...]] = []
    try:
        # One more than is shown, to know whether there are more.
        for one in _found(ledger, store, limit + 1):
            if (count := count + 1) > limit:
                break
            match style:
                case output.ListFormat.JSON:
                    output.put_json(_json(one))
                case output.ListFormat.TSV:
                    output.put_tabs((one.path, one.store, str(one.size), *_times(one)))
                case output.ListFormat.TABLE:
                    ages = (f"{rough(now - seen)} ago" for seen in (one.first_seen_at, one.last_seen_at))
                    rows.append((one.path, one.store, artifact_page.size_of(one.size), *ages))
    finally:
        ledger.close()
    if rows:
        output.put_table(_HEADERS, rows, whole=frozenset(_HEADERS) - {"STORE"})
    if not count:
        output.say("no orphans found")
    elif count > limit:
        output.say(f"there are more: --limit above {limit} lists them, --store those of one store")


def _found(ledger: LedgerConnection, store: str | None, limit: int) -> Iterator[Orphan]:
    """Page by page."""
    from brokerjobs.ledger import sweeping  # noqa: PLC0415  # slow: the driver

    last: Orphan | None = None
    while limit > 0:
        page = ledger.fetch(sweeping.list_orphans(store, last, min(limit, _PAGE)))
        yield from page
        if len(page) < min(limit, _PAGE):
            return
        limit -= len(page)
        last = page[-1]


def _times(one: Orphan) -> tuple[str, str]:
    return rfc3339(one.first_seen_at) or "", rfc3339(one.last_seen_at) or ""


def _json(one: Orphan) -> dict[str, object]:
    first, last = _times(one)
    return {
        "schema": "brokerjobs.artifact_orphan/1",
        "store": one.store,
        "path": one.path,
        "size": one.size,
        "first_seen_at": first,
        "last_seen_at": last,
    }
