"""`brokerjobs artifacts`: list, show, fetch, ack; and the artifacts on the page of a job."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from brokerjobs.artifacts import remote
from brokerjobs.artifacts.locations import StoreOptions
from brokerjobs.cli import artifact_orphans
from brokerjobs.cli.artifact_page import size_of
from brokerjobs.ledger import sweeping
from tests.artifacts.conftest import server
from tests.cli.command import PROGRAM, Command
from tests.flow.depot import CONTENT, Depot, sha256_of
from tests.ledger.staging import DAY, HOUR, WEEK
from tests.s3 import KEY_ID, SECRET

if TYPE_CHECKING:
    from brokerjobs.ledger.artifacts import StagedArtifact
    from tests.ledger.ledger_driver import Ledger
    from tests.s3 import S3Server

__all__ = ["server"]

COPIED = ("--copied-to", "s3://vault/7")


@pytest.fixture
def depot(ledger: Ledger, folder: Path) -> Depot:
    return Depot(ledger, StoreOptions(url=str(folder / "store")))


@pytest.fixture
def consumer(brokerjobs: Command, depot: Depot) -> Command:
    """Commands of a producer, who consumes, too."""
    brokerjobs.env["BROKERJOBS_ARTIFACTS__URL"] = depot.store.public
    return brokerjobs


def object_of(depot: Depot, artifact: StagedArtifact) -> Path:
    """The file that is the staged copy."""
    return Path(depot.store.public.removeprefix("file://")) / artifact.path


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, ""),
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (2**31, "2.0 GiB"),
        (5 * 2**60, "5120.0 PiB"),
    ],
)
def test_size__is_in_the_largest_unit_that_fits(size: int | None, words: str) -> None:
    assert size_of(size) == words


def test_list__of_a_job_has_what_was_accepted_and_the_rest_on_request(consumer: Command, depot: Depot) -> None:
    lost = depot.running()
    first = depot.put(lost, b"of the first attempt", "draft.csv")
    depot.ledger.lose(lost)
    depot.ledger.ring_again(lost.job_id)
    holding = depot.ledger.worker.take(lost.job_id)
    kept = depot.put(holding)
    job = str(lost.job_id)
    assert consumer("artifacts", "list", job).ok().err == "no artifacts found\n"

    depot.complete(holding, kept)

    [listed] = consumer("artifacts", "list", job, "-o", "json").lines()
    assert listed == depot.staging.shown(kept.id).record
    assert (listed["schema"], listed["state"]) == ("brokerjobs.staged_artifact/1", "ready")
    everything = consumer("artifacts", "list", job, "--all-attempts", "-o", "json").lines()
    assert [one["id"] for one in everything] == [str(first.id), str(kept.id)]
    cells = consumer("artifacts", "list", job, "--all-attempts").ok().out.splitlines()[0].split("\t")
    assert cells[:3] == [str(first.id), "ready", "20"]
    assert cells[4:] == ["draft.csv", "1", job, "", first.sha256 or "", "not accepted", ""]
    consumer("artifacts", "list", str(uuid4())).fails(6, "the ledger has no job")


def test_list__of_all_jobs_is_newest_first_and_filtered(consumer: Command, depot: Depot) -> None:
    older, newer = depot.hand_over(name="older"), depot.hand_over(name="newer")
    uploading = depot.begin(depot.running())
    place = ("--namespace", depot.ledger.place.namespace, "-o", "json")

    def ids(*flags: str) -> list[str]:
        return [one["id"] for one in consumer("artifacts", "list", *place, *flags).lines()]

    assert ids() == [str(newer.id), str(older.id)]
    assert ids("--all-attempts") == [str(uploading.id), str(newer.id), str(older.id)]
    assert ids("--state", "staging") == [str(uploading.id)]
    cells = consumer("artifacts", "list", *place[:2], "--state", "staging").ok().out.rstrip("\n").split("\t")
    assert cells[-2:] == ["", ""], "nobody has refused it"
    assert ids("--state", "ready", "--before", str(newer.id)) == [str(older.id)]
    assert ids("--state", "acknowledged") == []
    one = consumer("artifacts", "list", *place, "--limit", "1")
    assert one.err == f"there may be older ones: --before {newer.id}\n"
    consumer("artifacts", "list", str(newer.job), *place[:2]).fails(2, "are for lists of all jobs")


def test_list__on_a_terminal_is_a_table(consumer: Command, depot: Depot) -> None:
    artifact = depot.hand_over()
    table = consumer("artifacts", "list", str(artifact.job), "-o", "table", env={"COLUMNS": "100"}).ok().out
    headers, cells = (line.split() for line in table.splitlines())
    assert headers == ["ID", "STATE", "SIZE", "AGE", "NAME"]
    assert cells[:4] == [str(artifact.id), "ready", "17.6", "KiB"]


def test_show__says_what_is_known_through_the_life_of_an_artifact(consumer: Command, depot: Depot) -> None:
    artifact = depot.hand_over()

    def shown() -> str:
        return consumer("artifacts", "show", str(artifact.id), env={"COLUMNS": "400"}).ok().out

    assert f"job {artifact.job}, in namespace {depot.ledger.place.namespace}, " in shown()
    assert "ARTIFACT  sales.csv  attempt 1, ready" in shown()
    assert f"size        17.6 KiB ({len(CONTENT)} bytes)" in shown()
    assert f"{depot.store.public}/{artifact.path}" in shown()
    assert re.search(r"kept until  \d.+ \(in .+\), unless it is acknowledged before", shown())

    object_of(depot, artifact).unlink()
    missing = consumer("artifacts", "fetch", str(artifact.id), "--to", "copy").fails(
        8, "there is no object in the store"
    )
    assert "is kept" not in missing
    assert re.search(r"mismatch    \d.+, found by \w+@.+: no object was there", shown())

    consumer("artifacts", "ack", str(artifact.id), "--sha256", sha256_of(CONTENT), *COPIED, "--by", "ann").ok()
    assert re.search(r"acknowledged \d.+ by ann \(login .+\), whose copy is at s3://vault/7", shown())
    depot.sweep(after=HOUR)
    assert "attempt 1, acknowledged, gone" in shown()
    assert re.search(r"removed     \d.+, it was acknowledged", shown())
    assert consumer("artifacts", "show", str(artifact.id), "-o", "json").json()["removed_at"] is not None
    consumer("artifacts", "show", str(uuid4())).fails(6, "has no artifact", "next: brokerjobs artifacts list")
    consumer("artifacts", "show", "sales.csv").fails(2, "'sales.csv' is no artifact id")


def test_show__of_an_upload_that_failed_says_why_and_what_is_to_come(consumer: Command, depot: Depot) -> None:
    depot.store.prepare()
    holding = depot.running()
    upload = depot.begin(holding)
    shown = partial(consumer, "artifacts", "show", str(upload.id), env={"COLUMNS": "400"})
    assert re.search(r"upload      begun \d.+, has not ended", shown().ok().out)

    depot.staging.discard(upload.id, holding, "KeyError: 7")

    assert re.search(r"to remove   since \d.+, its upload failed: KeyError: 7\n", shown().ok().out)
    depot.sweep(after=HOUR)
    assert re.search(r"removed     \d.+, its upload failed: KeyError: 7\n", shown().ok().out)


def test_show__of_a_missing_object_that_was_given_up_names_no_time_limit(consumer: Command, depot: Depot) -> None:
    artifact = depot.hand_over()
    object_of(depot, artifact).unlink()
    consumer("artifacts", "fetch", str(artifact.id), "--to", "copy").fails(8)
    depot.sweep(after=WEEK + DAY)

    out = consumer("artifacts", "show", str(artifact.id)).ok().out

    assert "attempt 1, hash_mismatch, gone" in out
    assert "kept until" not in out


def test_fetch__gives_the_bytes_and_names_the_next_step(consumer: Command, depot: Depot, folder: Path) -> None:
    artifact = depot.hand_over()

    done = consumer("artifacts", "fetch", str(artifact.id), "--to", "copy.csv").ok()

    assert (folder / "copy.csv").read_bytes() == CONTENT
    assert done.out == f"{folder / 'copy.csv'}: 17.6 KiB, SHA-256 {artifact.sha256}\n"
    assert f"brokerjobs artifacts ack {artifact.id} --file COPY --copied-to WHERE" in done.err
    consumer("artifacts", "fetch", str(artifact.id), "--to", "copy.csv").fails(
        7, "there is one already", "next: --overwrite"
    )
    (folder / "link.csv").symlink_to(folder / "copy.csv")
    consumer("artifacts", "fetch", str(artifact.id), "--to", "link.csv", "--overwrite").fails(
        7, "no regular file, which is never replaced", "next: name a file that can be written"
    )
    again = consumer("artifacts", "fetch", str(artifact.id), "--to", "copy.csv", "--overwrite", "-o", "json").json()
    assert again == {
        "schema": "brokerjobs.fetched/1",
        "id": str(artifact.id),
        "job": str(artifact.job),
        "to": str(folder / "copy.csv"),
        "size": len(CONTENT),
        "sha256": artifact.sha256,
    }
    consumer("artifacts", "fetch", str(artifact.id), "--to", "no/such/folder").fails(7, "No such file or directory")
    assert depot.staging.shown(artifact.id) == artifact


def test_fetch__of_what_may_not_be_had_says_why(consumer: Command, depot: Depot, folder: Path) -> None:
    holding = depot.running()
    uploading, ready = depot.begin(holding), depot.put(holding, name="other")
    gone = depot.hand_over()
    depot.sweep(after=WEEK + DAY)
    to = ("--to", "copy")

    consumer("artifacts", "fetch", str(uploading.id), *to).fails(7, "is not ready", "(state staging)")
    consumer("artifacts", "fetch", str(ready.id), *to).fails(7, "is not the accepted one", "next: --unaccepted")
    consumer("artifacts", "fetch", str(gone.id), *to).fails(6, "is gone since", "nobody acknowledged it")
    consumer("artifacts", "fetch", str(uuid4()), *to).fails(6, "the ledger has no artifact")
    elsewhere = {"BROKERJOBS_ARTIFACTS__URL": str(folder / "elsewhere")}
    consumer("artifacts", "fetch", str(ready.id), *to, "--unaccepted", env=elsewhere).fails(3, depot.store.public)
    assert not (folder / "copy").exists()

    done = consumer("artifacts", "fetch", str(ready.id), *to, "--unaccepted").ok()
    assert done.err == ""  # nothing of an acknowledgement, which would be refused
    assert (folder / "copy").read_bytes() == CONTENT


def test_fetch__of_another_object_ends_badly_and_records_it(consumer: Command, depot: Depot, folder: Path) -> None:
    artifact = depot.hand_over()
    other = CONTENT[:-1] + b"\0"
    object_of(depot, artifact).write_bytes(other)

    done = consumer("artifacts", "fetch", str(artifact.id), "--to", "copy", "--by", "ann")

    done.fails(8, f"but {len(CONTENT)} bytes with SHA-256 {sha256_of(other)} in the store", "the staged copy is kept")
    done.fails(8, f"next: brokerjobs artifacts show {artifact.id}")
    assert not (folder / "copy").exists()
    known = depot.staging.shown(artifact.id)
    assert known.mismatch is not None
    assert (known.state, known.mismatch.by) == ("hash_mismatch", "ann")


def test_ack__by_the_copy_itself_or_its_hash_is_recorded_once(consumer: Command, depot: Depot, folder: Path) -> None:
    artifact = depot.hand_over()
    (folder / "copy").write_bytes(CONTENT)
    wanted = ("artifacts", "ack", str(artifact.id))

    first = consumer(*wanted, "--file", "copy", *COPIED, "--by", "ann").ok()
    again = consumer(*wanted, "--sha256", sha256_of(CONTENT), "--copied-to", "elsewhere", "-o", "json").json()

    assert first.out == f"artifact {artifact.id} is acknowledged, by ann: its copy is at s3://vault/7\n"
    assert {key: again[key] for key in ("schema", "id", "by", "copied_to", "repeated")} == {
        "schema": "brokerjobs.acknowledged/1",
        "id": str(artifact.id),
        "by": "ann",
        "copied_to": "s3://vault/7",
        "repeated": True,
    }
    assert again["at"] == depot.staging.shown(artifact.id).record["acknowledged"]["at"]


def test_ack__of_another_copy_or_of_no_copy_is_refused(consumer: Command, depot: Depot, folder: Path) -> None:
    artifact = depot.hand_over()
    consumer("artifacts", "ack", str(artifact.id), "--sha256", "0" * 64, "--copied-to", "").fails(
        2, "--copied-to is empty"
    )
    (folder / "copy").write_bytes(CONTENT[:-1])
    wanted = ("artifacts", "ack", str(artifact.id), *COPIED)

    consumer(*wanted, "--file", "copy").fails(7, f"the ledger has {artifact.sha256}", "nothing was changed")
    consumer(*wanted, "--sha256", "0" * 64).fails(7, "the copy is another file")
    consumer(*wanted).fails(2, "none of --sha256 and --file given")
    consumer(*wanted, "--sha256", "0" * 64, "--file", "copy").fails(2, "both of --sha256 and --file given")
    consumer(*wanted, "--file", "no-copy").fails(2, "--file 'no-copy' cannot be read")
    consumer(*wanted, "--sha256", "short").fails(7, "is no SHA-256")
    assert depot.staging.shown(artifact.id) == artifact


def test_job_page__has_its_artifacts(consumer: Command, depot: Depot) -> None:
    artifact = depot.hand_over()
    consumer("artifacts", "ack", str(artifact.id), "--sha256", sha256_of(CONTENT), *COPIED, "--by", "ann").ok()

    page = consumer("jobs", "show", str(artifact.job), env={"COLUMNS": "300"}).ok().out

    assert "ARTIFACT  sales.csv  attempt 1, acknowledged" in page
    assert f"size        17.6 KiB ({len(CONTENT)} bytes)" in page
    assert "by ann (login" in page
    assert "whose copy is at s3://vault/7" in page
    [record] = consumer("jobs", "show", str(artifact.job), "-o", "json").json()["artifacts"]
    assert record == depot.staging.shown(artifact.id).record


NAMES = ["../../etc/passwd", "/etc/passwd", "x" * 1_000, "\u202egnp.exe", "\x1b[2J\x1b]0;mine\x07", "a\tb\nc"]


@pytest.mark.parametrize("name", NAMES)
def test_name__of_whatever_kind_moves_no_cursor_and_names_no_file(
    consumer: Command, depot: Depot, folder: Path, name: str
) -> None:
    artifact = depot.hand_over(name=name)
    wanted, job = str(artifact.id), str(artifact.job)
    before = set(folder.rglob("*"))

    said = [
        consumer("artifacts", "list", job).ok().out,
        consumer("artifacts", "list", job, "-o", "table").ok().out,
        consumer("artifacts", "list", job, "-o", "json").ok().out,
        consumer("artifacts", "show", wanted).ok().out,
        consumer("artifacts", "fetch", wanted, "--to", "copy").ok().out,
        consumer("jobs", "show", job).ok().out,
    ]

    assert not any(re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text) for text in said)
    assert [len(text.splitlines()) for text in said[:3]] == [1, 2, 1]
    assert len(said[0].split("\t")) == 11
    assert json.loads(said[2])["name"] == name
    assert set(folder.rglob("*")) - before == {folder / "copy"}
    if len(name) == 1_000:
        assert f"ARTIFACT  {'x' * 80}… (1000 characters)" in said[5]


def test_bar__is_shown_on_a_terminal_alone(consumer: Command, depot: Depot, folder: Path) -> None:
    artifact = depot.hand_over(CONTENT * 500, name="\x1b[2Jsales [bold]")
    given = ["artifacts", "fetch", str(artifact.id), "--to", "copy", "--overwrite"]
    ours, theirs = pty.openpty()
    env = consumer.environment({"TERM": "xterm", "COLUMNS": "120"})

    with subprocess.Popen([*PROGRAM, *given], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=theirs) as run:
        os.close(theirs)
        seen = b""
        while piece := _read(ours):
            seen += piece
        assert run.wait(20) == 0, seen
    os.close(ours)

    assert b"\\x1b[2Jsales [bold]" in seen
    assert b"MiB" in seen
    assert b"/s" in seen
    assert "MiB" not in consumer.process(*given).ok().err


def _read(terminal: int) -> bytes:
    """What a program wrote to its terminal; nothing once it has ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_bucket__that_refuses_says_so_without_secrets(
    consumer: Command, ledger: Ledger, server: S3Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depot = Depot(ledger, server.options(ledger.place.namespace))
    artifact = depot.hand_over()
    options = dict(depot.options.options)
    wanted = ("artifacts", "fetch", str(artifact.id), "--to", "copy")
    consumer.env["BROKERJOBS_ARTIFACTS__URL"] = depot.store.public

    def with_options(**other: str) -> dict[str, str]:
        return {"BROKERJOBS_ARTIFACTS__OPTIONS": json.dumps(options | other)}

    consumer.process(*wanted, env=with_options()).ok()
    (folder / "copy").unlink()
    wrong = consumer.process(*wanted, "--debug", env=with_options(secret_access_key="an-entirely-wrong-one"))
    assert wrong.code == 3
    assert f"error: the artifact store {depot.store.public} refused: " in wrong.err
    monkeypatch.setattr(remote, "_RETRIES", {"max_retries": 0})
    missing = consumer(*wanted, env=with_options(endpoint="http://127.0.0.1:1"))
    missing.fails(4, f"the artifact store {depot.store.public} gave no answer")

    for said in (wrong, missing):
        assert not any(secret in said.out + said.err for secret in (SECRET, "an-entirely-wrong-one", KEY_ID))
    assert not (folder / "copy").exists()
    assert depot.staging.shown(artifact.id) == artifact


def test_orphans__are_listed_with_where_they_are(
    depot: Depot, operator: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, by = (depot.store.public, f"{depot.store.public}-2"), depot.ledger.coordinator
    assert operator("artifacts", "orphans", "--store", stores[0]).ok().err == "no orphans found\n"
    for number in range(3):
        by.fetch(sweeping.artifacts_known(stores[0], [f"{number}/x"], [2_000 + number]))
        depot.ledger.clock.advance(HOUR)
    by.fetch(sweeping.artifacts_known(stores[1], ["y"], [1]))
    monkeypatch.setattr(artifact_orphans, "_PAGE", 2)

    found = operator("artifacts", "orphans", "--store", stores[0], "-o", "json")
    assert [one["path"] for one in found.lines()] == ["0/x", "1/x", "2/x"]
    assert found.err == ""
    first = found.lines()[0]
    assert set(first) == {"schema", "store", "path", "size", "first_seen_at", "last_seen_at"}
    assert (first["schema"], first["store"], first["size"]) == ("brokerjobs.artifact_orphan/1", stores[0], 2_000)
    cells = [line.split("\t") for line in operator("artifacts", "orphans").ok().out.splitlines()]
    assert [one[:3] for one in cells if one[1] == stores[1]] == [["y", stores[1], "1"]]
    assert [len(one) for one in cells] == [5] * len(cells)
    fewer = operator("artifacts", "orphans", "--store", stores[0], "--limit", "2")
    assert [line.split("\t")[0] for line in fewer.ok().out.splitlines()] == ["0/x", "1/x"]
    assert fewer.err.startswith("there are more: --limit above 2")
    table = operator("artifacts", "orphans", "--store", stores[0], "-o", "table", env={"COLUMNS": "300"}).ok().out
    assert table.splitlines()[0].split() == ["PATH", "STORE", "SIZE", "FIRST", "SEEN", "LAST", "SEEN"]
    assert "2.0 KiB" in table
