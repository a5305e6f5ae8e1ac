"""`brokerjobs status`: the screen for three in the morning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerjobs.cli import apps, options, output
from brokerjobs.cli.failures import UsageError
from brokerjobs.rules.texts import redacted

if TYPE_CHECKING:
    from brokerjobs.cli.condition import Condition


def status(
    *,
    namespace: options.Namespace = None,
    app: options.ApplicationFlag = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Say in at most ten lines what is wrong, the worst first, each with the next command; changes nothing.

    Asks the ledger alone, once, of all namespaces unless one is named.  Ends with 0 whatever it found, as long as the
    ledger answered: `well` in the JSON says whether something is wrong.
    """
    if app is not None and namespace is not None:
        message = "--namespace and --app both name a namespace"
        raise UsageError(message)
    wanted = namespace if app is None else apps.load(app).namespace
    settings = options.settings_of({"database_url": database_url})
    from brokerjobs.cli import condition  # noqa: PLC0415  # slow: with what it looks by
    from brokerjobs.ledger.database import ConnectOptions, LedgerConnection  # noqa: PLC0415  # slow: the driver
    from brokerjobs.ledger.overview import overview  # noqa: PLC0415  # ditto

    ledger = LedgerConnection(ConnectOptions(settings.need_database_url(), application="brokerjobs status"))
    try:
        [found] = ledger.fetch(overview(wanted, condition.WAITS_TOO_LONG))
    finally:
        ledger.close()
    judged = condition.condition_of(found.overview)
    if output_format is output.Format.JSON:
        output.put_json(_as_json(judged, found.overview, wanted))
    else:
        _put_lines(judged)


def _put_lines(judged: Condition) -> None:
    width = max((len(line.about) for line in judged.lines), default=0)
    for line in judged.lines:
        level = {"ok": "note"}.get(line.level.name.lower(), line.level.name.lower())
        output.put(redacted(f"{level}  {line.about:<{width}}  {line.message}; next: {line.next}"))
    output.put(f"all is well: {judged.summary}" if judged.well else judged.summary)


def _as_json(judged: Condition, overview: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """One object: the lines, and the figures that they were made of."""
    return {
        "schema": "brokerjobs.status/1",
        "namespace": namespace,
        "at": overview["clock"],
        "well": judged.well,
        "summary": judged.summary,
        "lines": [
            {
                "about": line.about,
                "level": {"ok": "note"}.get(line.level.name.lower(), line.level.name.lower()),
                "message": redacted(line.message),
                "next": line.next,
            }
            for line in judged.lines
        ],
        "figures": {key: value for key, value in overview.items() if key != "clock"},
    }
