"""The reference pages say what the code says: whichever of both changes alone makes a test fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
import typer.main

from brokerjobs import errors
from brokerjobs.broker import codec, names
from brokerjobs.broker.topology import Topology
from brokerjobs.cli.failures import ExitCode
from brokerjobs.cli.main import app
from brokerjobs.ledger import schema
from brokerjobs.ledger.roles import GRANTS, ROLES
from brokerjobs.rules import states, verdicts
from brokerjobs.rules.failures import FailureClass
from brokerjobs.worker.worker import DrainedWith

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
# Where the SQL says what kind an event is: `note` and `move_job` are called with it, or it is inserted.
_KIND = r"('\w+'(?: \|\| p_as)?|case .+? end|p_kind)"
_EVENT_CALLS = (
    rf"note\((?:[\w.\[\]]+), (?:[\w.\[\]]+), {_KIND},",
    rf"move_job\(s, d, {_KIND},",
    rf"insert into event \([^)]*\)\s+select [^']*?{_KIND}",
)


def section(page: str, heading: str) -> str:
    text = (REFERENCE / page).read_text()
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"{page} has no {heading!r}"
    level = heading.split(" ", 1)[0]
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(page: str, heading: str) -> list[list[str]]:
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def codes(page: str, heading: str) -> list[str]:
    return [_CODE.findall(row[0])[0] for row in rows(page, heading)]


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page__links_only_to_what_is_there(page: Path) -> None:
    dead: list[str] = []
    for link in _LINK.findall(without_code(page.read_text())):
        target, _, anchor = link.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page__names_no_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w./])/(?:work|tmp|root|home)\b[^\s`]*", page.read_text()) == []


def test_tutorial__has_the_example_that_the_tests_run() -> None:
    shown = re.search(r"```python\n(.*?)```", (ROOT / "docs/tutorial/first-job.md").read_text(), re.DOTALL)
    assert shown
    _, _, example = (ROOT / "docs/examples/quickstart.py").read_text().partition(f"# {'-' * 118}\n")

    assert re.sub(r'@app.job\("order.pack".*?\n\n\n', "", shown[1], flags=re.DOTALL) == example


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("## States of a job", states.JobState),
        ("## What a queued job waits for", states.Waiting),
        ("## States of an attempt", states.AttemptShown),
        ("## How an attempt is closed", states.ClosedAs),
        ("## What an attempt reports", states.ReportAs),
        ("## Verdicts of a submission", verdicts.SubmitVerdict),
        ("## Verdicts of a claim", verdicts.ClaimVerdict),
        ("## Verdicts of a start", verdicts.StartVerdict),
        ("## Verdicts of a renewal", verdicts.RenewVerdict),
        ("## Verdicts of a report", verdicts.ReportVerdict),
        ("## Verdicts of an intent", verdicts.IntentVerdict),
        ("## Verdicts of an outcome", verdicts.OutcomeVerdict),
        ("## States of an artifact", states.ArtifactState),
        ("## Verdicts of an upload", verdicts.StageVerdict),
        ("## Verdicts of a whole upload", verdicts.ReadyVerdict),
        ("## Verdicts of an acknowledgement", verdicts.AcknowledgeVerdict),
        ("## Verdicts of a mismatch", verdicts.MismatchVerdict),
        ("## Verdicts of an object", verdicts.ObjectVerdict),
        ("## Reasons of a rejected report", verdicts.RejectReason),
        ("## Failure classes", FailureClass),
    ],
)
def test_states_page__has_every_word_once(heading: str, words: type[StrEnum]) -> None:
    assert codes("states.md", heading) == [word.value for word in words]


def test_states_page__has_every_move_with_its_reasons() -> None:
    listed = {
        (states.JobState(before.strip("`")), states.JobState(after.strip("`"))): tuple(reasons.split(", "))
        for before, after, reasons, *_ in rows("states.md", "## Moves of a job")
    }

    assert listed == dict(states.JOB_MOVES)


def test_states_page__has_every_move_of_an_artifact() -> None:
    listed = {
        (states.ArtifactState(before.strip("`")), states.ArtifactState(after.strip("`"))): reason
        for before, after, reason, *_ in rows("states.md", "## Moves of an artifact")[: len(states.ARTIFACT_MOVES)]
    }

    assert listed == dict(states.ARTIFACT_MOVES)


def event_kinds(text: str) -> Iterator[str]:
    text = re.sub(r"--.*", "", text)
    for call in _EVENT_CALLS:
        for found in re.findall(call, text, re.DOTALL):
            if found.endswith("|| p_as"):
                prefix = found.split("'")[1]
                yield from (prefix + ending for ending in ("failed", "released"))
            elif found.startswith("case"):
                yield from re.findall(r"(?:then|else) '(\w+)'", found)
            elif found != "p_kind":  # handed on by `move_job`, found where that is called
                yield found.strip("'")


def test_states_page__has_every_event_of_the_ledger() -> None:
    sql = schema.functions()
    written = {kind for text in sql.values() for kind in event_kinds(text)}
    calls = sum(
        len(re.findall(r"(?:perform|select) (?:note|move_job)\(|insert into event ", text)) for text in sql.values()
    )
    understood = sum(
        len(re.findall(call, re.sub(r"--.*", "", text), re.DOTALL)) for text in sql.values() for call in _EVENT_CALLS
    )

    # `note` itself inserts what it is given.
    assert understood == calls - 1, "an event is written in a way that this test does not read"
    assert sorted(codes("states.md", "## Events")) == sorted(written)


def signature(text: str) -> str:
    found = re.search(r"(\w+_v1\(.*?\)\s*returns .*?)(?=\s+language|\s*$)", text, re.DOTALL)
    assert found
    return " ".join(found[1].split()).replace("( ", "(")


@pytest.mark.parametrize("name", sorted(name for name in schema.functions() if name.endswith("_v1")))
def test_sql_page__has_the_signature_of_each_public_function(name: str) -> None:
    block = re.search(r"```sql\n(.*?)```", section("sql.md", f"### `{name}`"), re.DOTALL)
    assert block

    assert signature(block[1]) == signature(schema.functions()[name])


def test_sql_page__has_every_sqlstate_of_ours() -> None:
    raised = {code for text in ledger_texts() for code in re.findall(r"errcode = '(BJ\d+)'", text)}

    assert set(codes("sql.md", "## Errors")) == raised


def ledger_texts() -> Iterator[str]:
    yield from schema.functions().values()
    yield from (migration.text for migration in schema.migrations())


def test_sql_page__says_who_may_call_what() -> None:
    listed: dict[str, set[str]] = {role: set() for role in ROLES}
    for name, *marks in rows("sql.md", "## Who may call what"):
        for role, mark in zip(ROLES, marks, strict=True):
            assert mark in {"", "yes"}
            if mark:
                listed[role].add(name.strip("`"))

    assert listed == {role: set(GRANTS[role]) for role in ROLES}


def commands() -> Iterator[tuple[str, Any]]:
    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if inner := getattr(command, "commands", None):
            for word, one in inner.items():
                yield from walk(f"{name} {word}", one)
        else:
            yield name, command

    yield from walk("brokerjobs", typer.main.get_command(app))


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_command_line_page__has_every_flag(name: str, command: Any) -> None:
    flags = [max(one.opts, key=len) for one in command.params if one.opts[0].startswith("-")]

    assert sorted(codes("command-line.md", f"## `{name}`")) == sorted(flags)


def test_command_line_page__has_every_exit_code() -> None:
    known = {int(code) for code in ExitCode} | {int(code) for code in DrainedWith}

    assert [int(code) for code in codes("command-line.md", "## Exit codes")] == sorted(known)


def test_command_line_page__has_every_json_schema() -> None:
    sources = [*(ROOT / "brokerjobs").rglob("*.py"), *(ROOT / "brokerjobs").rglob("*.sql")]
    said = {name for source in sources for name in re.findall(r"[\"'](brokerjobs\.\w+/\d+)[\"']", source.read_text())}

    assert set(codes("command-line.md", "## JSON")) == said


def test_errors_page__has_every_error_once() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BrokerjobsError)
    ]
    public = {kind.__name__ for kind in kinds if not kind.__name__.startswith("_")}
    text = (REFERENCE / "errors.md").read_text()

    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(public - {"BrokerjobsError", "HandlerSignal", "ArtifactError"})
    assert all(f"`{name}`" in text for name in public)


def test_messages_page__shows_a_doorbell_as_it_is() -> None:
    block = re.search(r"```json\n(.*?)\n```", section("messages.md", "## Doorbells"), re.DOTALL)
    assert block

    assert codec.encode_doorbell(UUID(json.loads(block[1])["job"])).decode() == block[1]
    assert f"`{names.DOORBELL_TYPE}`" in section("messages.md", "## Doorbells")
    assert f"`{names.DEAD_TYPE}`" in section("messages.md", "## Dead letters")


def test_messages_page__shows_a_probe_as_it_is() -> None:
    probe = codec.probe(ticket=UUID(int=1), namespace="n", route="n.q.default")
    listed = dict(rows("messages.md", "## Probes"))

    assert (listed["`type`"], listed["body"]) == (f"`{probe.type}`", f"`{probe.body.decode()}`")


def test_messages_page__has_every_exchange_and_argument() -> None:
    wanted = Topology(routes=frozenset({names.route_name("{ns}", "{queue}")}))
    listed = rows("messages.md", "## Names at the broker")
    exchanges = {row[0].strip("`"): row[1] for row in listed if row[0].startswith("`{ns}")}
    arguments: dict[str, dict[str, str]] = {"route": {}, "kept": {}}
    for name, route, kept in (row for row in listed if row[0].startswith("`x-")):
        if route:
            arguments["route"][name.strip("`")] = _CODE.findall(route)[0]
        if kept:
            same = kept == "the same"
            arguments["kept"][name.strip("`")] = _CODE.findall(route if same else kept)[0]

    assert exchanges == {one.name: one.kind for one in wanted.exchanges()}
    for queue in wanted.queues():
        of = arguments["route" if queue.name in wanted.routes else "kept"]
        assert of == {name: str(value) for name, value in queue.arguments.items()}
