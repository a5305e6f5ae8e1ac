"""`brokerjobs artifacts`: list what jobs hand over, show one, fetch it, acknowledge a copy of it."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar
from uuid import UUID

import typer

from brokerjobs.cli import artifact_orphans, artifact_page, decision, moments, options, output
from brokerjobs.cli.failures import Refused, UsageError
from brokerjobs.cli.transfer_bar import transfer_bar
from brokerjobs.rules.states import ArtifactState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from brokerjobs.artifacts.store import ArtifactStore
    from brokerjobs.client.sync_artifacts import SyncArtifacts
    from brokerjobs.ledger.artifacts import Acknowledgement, StagedArtifact, Wanted
    from brokerjobs.ledger.asking import Asking
    from brokerjobs.ledger.database import LedgerConnection

T = TypeVar("T")

app = typer.Typer(
    help="List artifacts, show one, fetch it, acknowledge a copy of it.", add_completion=False, rich_markup_mode=None
)

_COMMAND: Final = "brokerjobs artifacts"
_PAGE: Final = 1_000  # as many as one statement of the ledger answers
_NARROW: Final = 150  # columns of a terminal below which only the first ones are shown
_PIECE: Final = 1024 * 1024
_Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The artifact's id.")]
_ListFormat: TypeAlias = Annotated[
    output.ListFormat | None, typer.Option("-o", "--output", show_default=False, help="[table, or tsv when piped]")
]


@app.command("list", short_help="List the artifacts of a job, or of all jobs.")
def list_artifacts(
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", show_default=False, help="The job's id; without it those of all jobs."),
    ] = None,
    *,
    state: Annotated[ArtifactState | None, typer.Option(show_default=False, help="The state of the artifacts.")] = None,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Those of attempts, too, whose result was not accepted.")
    ] = False,
    namespace: options.Namespace = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, newest first; of a job all are listed.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="ID", show_default=False, help="Only those before this.")
    ] = None,
    database_url: options.DatabaseUrl = None,
    output_format: _ListFormat = None,
) -> None:
    """List artifacts, a job's by attempt, else newest first: a table on a terminal, tab-separated lines when piped."""
    from brokerjobs.ledger.artifacts import Wanted  # noqa: PLC0415  # slow: the driver

    style = output_format or (output.ListFormat.TABLE if output.is_terminal() else output.ListFormat.TSV)
    # Uploads that have not ended, or were given up, are part of no result.
    everything = all_attempts or state in {ArtifactState.STAGING, ArtifactState.DISCARDED}
    last = None if before is None else _id_of(before)
    if job is not None and (last is not None or namespace is not None):
        message = "--before and --namespace are for lists of all jobs, and a job is named"
        raise UsageError(message)
    ledger = decision.ledger_of(database_url, _COMMAND)
    try:
        if job is None:
            _print(_found(ledger, Wanted(namespace, state, everything, last, limit)), style, limit)
        else:
            of_job = _Access(ledger, "").artifacts.list(options.job_id_of(job), all_attempts=everything)
            _print((one for one in of_job if state in {None, one.state}), style, None)
    finally:
        ledger.close()


@app.command("show", short_help="Show what is known of an artifact.")
def show(
    artifact_id: _Id,
    *,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Show what is known of an artifact: size, hash, where it is staged, who acknowledged it, what was found of it."""
    wanted = _id_of(artifact_id)
    with _opened(database_url, "") as access:
        found = access.artifacts.get(wanted)
    if output_format is output.Format.JSON:
        output.put_json(found.record)
        return
    from brokerjobs.cli import job_page, job_words  # noqa: PLC0415  # slow: rich

    page = job_page.Page(output.console())
    times = job_words.Times(found.made_at, datetime.now(UTC))
    page.verbatim(f"job {found.job}, in namespace {found.namespace}, {times.whole(found.made_at)} UTC")
    artifact_page.show(page, found.record, times, whole=True)


app.command("orphans", short_help="List objects of which the ledger knows nothing.")(artifact_orphans.orphans)


@app.command("fetch", short_help="Copy an artifact to a file, and verify it.")
def fetch(
    artifact_id: _Id,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="PATH", show_default=False, help="The file that is to be.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over a regular file that is there.")] = False,
    unaccepted: Annotated[
        bool, typer.Option("--unaccepted", help="Even if it is not part of its job's result: for people who look.")
    ] = False,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Copy an artifact to a file, which has its name only once size and hash are the recorded ones.

    Acknowledges nothing: that is for whoever has a copy in a safe place (`brokerjobs artifacts ack`).
    """
    wanted = _id_of(artifact_id)
    with _opened(database_url, options.who(by)) as access:
        known = access.artifacts.get(wanted)
        with transfer_bar(artifact_page.name_of(known.name), known.size or 0) as told:
            try:
                file = access.artifacts.fetch(wanted, to=to, overwrite=overwrite, unaccepted=unaccepted, progress=told)
            except OSError as error:
                raise _not_written(to, error) from None
    if output_format is output.Format.JSON:
        fetched = {
            "id": str(wanted),
            "job": str(known.job),
            "to": str(file),
            "size": known.size,
            "sha256": known.sha256,
        }
        output.put_json({"schema": "brokerjobs.fetched/1", **fetched})
        return
    output.put(f"{file}: {artifact_page.size_of(known.size)}, SHA-256 {known.sha256}")
    if known.acknowledged is None and known.visible:
        output.say(f"once a copy is in a safe place: {_COMMAND} ack {wanted} --file COPY --copied-to WHERE")


@app.command("ack", short_help="Acknowledge that a safe copy exists.")
def ack(
    artifact_id: _Id,
    *,
    copied_to: Annotated[
        str, typer.Option("--copied-to", show_default=False, help="Where the copy is, for the record.")
    ],
    sha256: Annotated[
        str | None,
        typer.Option(metavar="HEX", show_default=False, help="The copy's hash, computed of the copy itself."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PATH", show_default=False, help="The copy: it is hashed here.")
    ] = None,
    by: options.By = None,
    database_url: options.DatabaseUrl = None,
    output_format: options.OutputFormat = output.Format.TEXT,
) -> None:
    """Acknowledge that a copy with the recorded hash is in a safe place; the staged one is removed after a grace time.

    The hash is that of the copy, by --sha256 or read from --file; it is refused if it is not the recorded one.
    """
    wanted = _id_of(artifact_id)
    if (sha256 is None) == (file is None):
        message = (
            f"{'none' if sha256 is None else 'both'} of --sha256 and --file given: one says which hash the copy has"
        )
        raise UsageError(message, hint=f"{_COMMAND} ack --help")
    if not copied_to:
        message = "--copied-to is empty; it is kept with the artifact and says where the copy is"
        raise UsageError(message, hint=f"{_COMMAND} ack --help")
    who = options.who(by)
    digest = sha256 if sha256 is not None else _hash_of(file or Path())
    with _opened(database_url, who) as access:
        said, repeated = access.acknowledged(wanted, digest, copied_to)
    if output_format is output.Format.JSON:
        facts = {"at": moments.rfc3339(said.at), "by": said.by, "login": said.login, "copied_to": said.copied_to}
        output.put_json({"schema": "brokerjobs.acknowledged/1", "id": str(wanted), **facts, "repeated": repeated})
        return
    again = " already" if repeated else ""
    output.put(f"artifact {wanted} is acknowledged{again}, by {said.by}: its copy is at {said.copied_to}")


@dataclass(frozen=True)
class _Access:
    """What the commands reach artifacts through."""

    ledger: LedgerConnection
    submitted_by: str
    patience_seconds: float = 1.0

    @property
    def artifacts(self) -> SyncArtifacts:
        """As clients have them."""
        from brokerjobs.client.sync_artifacts import SyncArtifacts  # noqa: PLC0415  # slow: the driver

        return SyncArtifacts(lambda: self)

    def ask(self, asking: Asking[T], /) -> T:
        """Asks the ledger."""
        from brokerjobs.ledger.asking import ask_sync  # noqa: PLC0415  # slow: the driver

        return ask_sync(asking, self.ledger.fetch)

    def store(self) -> ArtifactStore:
        """The store of the settings."""
        from brokerjobs.artifacts.store import ArtifactStore  # noqa: PLC0415  # slow: the driver
        from brokerjobs.artifacts.told import store_options  # noqa: PLC0415

        return ArtifactStore(store_options(options.settings_of({}).artifacts))

    def acknowledged(self, wanted: UUID, sha256: str, copied_to: str) -> tuple[Acknowledgement, bool]:
        """What is recorded, and whether it was before."""
        from brokerjobs.client import artifact_questions as questions  # noqa: PLC0415  # slow: the driver
        from brokerjobs.client.patience import until_answered_sync  # noqa: PLC0415

        said = partial(questions.acknowledge, wanted, sha256=sha256, copied_to=copied_to, by=self.submitted_by)
        return until_answered_sync(lambda: self.ask(said()), self.patience_seconds)


@contextmanager
def _opened(database_url: str | None, by: str) -> Generator[_Access]:
    """The artifacts of a ledger, in somebody's name."""
    ledger = decision.ledger_of(database_url, _COMMAND)
    try:
        yield _Access(ledger, by)
    finally:
        ledger.close()


def _found(ledger: LedgerConnection, wanted: Wanted) -> Iterator[StagedArtifact]:
    """Those of all jobs, page by page."""
    from brokerjobs.ledger import artifacts  # noqa: PLC0415  # slow: the driver

    left = wanted.limit
    while left > 0:
        rows = ledger.fetch(artifacts.list_artifacts(replace(wanted, limit=min(left, _PAGE))))
        yield from rows
        if len(rows) < min(left, _PAGE):
            return
        left -= len(rows)
        wanted = replace(wanted, before=rows[-1].id)


def _print(found: Iterator[StagedArtifact], style: output.ListFormat, limit: int | None) -> None:
    count, last = 0, None
    rows: list[tuple[str, ...]] = []
    for one in found:
        count, last = count + 1, one.id
        match style:
            case output.ListFormat.JSON:
                output.put_json(one.record)
            case output.ListFormat.TSV:
                output.put_tabs(artifact_page.line(one.record))
            case output.ListFormat.TABLE:
                rows.append(artifact_page.short(one.record, datetime.now(UTC)))
    if rows:
        headers = artifact_page.HEADERS
        columns = len(headers) if output.console().width >= _NARROW else artifact_page.NARROW_COLUMNS
        output.put_table(headers[:columns], [row[:columns] for row in rows], whole=artifact_page.WHOLE)
    if not count:
        output.say("no artifacts found")
    elif count == limit:
        output.say(f"there may be older ones: --before {last}")


def _id_of(text: str) -> UUID:
    """The id that `text` is; raises UsageError."""
    try:
        return UUID(text)
    except ValueError:
        message = f"{text!r} is no artifact id: ids are UUIDs, such as 01890a5d-ac96-774b-bcce-b302099a8057"
        raise UsageError(message, hint=f"{_COMMAND} list") from None


def _hash_of(file: Path) -> str:
    """The SHA-256 of the consumer's own copy; raises UsageError if it cannot be read."""
    try:
        with file.open("rb") as opened, transfer_bar(str(file), file.stat().st_size) as told:
            digest, size = hashlib.sha256(), 0
            for piece in iter(partial(opened.read, _PIECE), b""):
                digest.update(piece)
                size += len(piece)
                if told is not None:
                    told(size)
    except OSError as error:
        message = f"--file {str(file)!r} cannot be read: {error.strerror}"
        raise UsageError(message, hint="name the copy that is in a safe place") from None
    return digest.hexdigest()


def _not_written(to: Path, error: OSError) -> Refused:
    message = f"--to {str(to)!r}: {error.strerror or error}; nothing is left of the copy"
    is_file = isinstance(error, FileExistsError) and to.is_file() and not to.is_symlink()
    hint = "--overwrite writes over it, once the new copy is whole" if is_file else ""
    return Refused(message, hint=hint or "name a file that can be written, where there is room")
