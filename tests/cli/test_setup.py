"""`brokerjobs setup`: what it makes, what it says, and what a repeat changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.cli.urls import login_of, with_login

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command
    from tests.databases import Database, Databases


def test_setup__makes_ledger_types_and_routes_and_says_so(
    brokerjobs: Command, blank_database: Database, shop: str, namespace: str
) -> None:
    as_owner = {"BROKERJOBS_DATABASE_URL": blank_database.owner_url}

    said = brokerjobs("setup", shop, env=as_owner).ok().out
    assert "applied 0001_ledger" in said
    assert f"job type {namespace}/add: added" in said
    assert f"declared at the broker: {namespace}.q.default, {namespace}.q.sums" in said

    again = brokerjobs("setup", shop, env=as_owner).ok().out
    assert "already up to date" in again
    assert f"job type {namespace}/add: unchanged" in again


def test_setup__without_application_makes_the_ledger_alone(offline: Command, blank_database: Database) -> None:
    said = offline("setup", "--database-url", blank_database.owner_url).ok().out

    assert "applied 0001_ledger" in said
    assert "no application was given" in said


def test_setup__changes_terms_and_prints_the_difference(
    ready: Command, as_owner: dict[str, str], folder: Path, shop: str, namespace: str
) -> None:
    text = (folder / "shop.py").read_text()
    (folder / "shop.py").write_text(
        text.replace('"add", repeatable=True', '"add", repeatable=False').replace("cents: int", "cents: float")
    )

    done = ready.process("setup", shop, "-o", "json", env=as_owner).json()

    changed = {one["name"]: one for one in done["types"]}
    assert changed["add"]["verdict"] == "changed"
    assert changed["add"]["changes"]["repeatable"] == {"was": True, "now": False}
    assert "payload_fingerprint" in changed["add"]["changes"]
    (folder / "shop.py").write_text(text)
    said = ready.process("setup", shop, env=as_owner).ok().out
    assert f"job type {namespace}/add: changed\n" in said
    assert "  repeatable: False → True\n" in said


def test_setup__as_json_is_one_object(ready: Command, as_owner: dict[str, str], shop: str, namespace: str) -> None:
    done = ready("setup", shop, "-o", "json", env=as_owner).json()

    assert done["schema"] == "brokerjobs.setup/1"
    assert done["ledger"]["version"] == 1
    assert [one["name"] for one in done["types"]] == ["add", "refuse", "unclear"]
    assert done["routes"] == [f"{namespace}.q.default", f"{namespace}.q.sums"]


def test_grant__lets_a_login_submit(
    ready: Command, database: Database, as_owner: dict[str, str], namespace: str
) -> None:
    login = f"cli_{namespace}"
    url = with_login(database.owner_url, f"{login}:pw")
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute(f"create role {login} login password 'pw'")
    submit = ("submit", f"{namespace}/add", "1", "--database-url", url)
    try:
        ready(*submit).fails(9, "schema")
        ready("setup", "--grant", f"producer={login}", "--grant", f"reader={login}", env=as_owner).ok()
        ready(*submit).ok()
    finally:
        with psycopg.connect(database.admin_url, autocommit=True) as admin:
            admin.execute(f"drop role {login}")


@pytest.mark.parametrize(
    ("grant", "code", "words"),
    [
        ("producer", 2, "KIND=LOGIN"),
        ("=x", 2, "KIND=LOGIN"),
        ("boss=postgres", 3, "known are producer, worker, coordinator, reader"),
        ("producer=nobody_knows", 3, "PostgreSQL has no role 'nobody_knows'"),
    ],
)
def test_grant__that_cannot_be_is_said(
    brokerjobs: Command, as_owner: dict[str, str], grant: str, code: int, words: str
) -> None:
    brokerjobs("setup", "--grant", grant, env=as_owner).fails(code, words)


def test_setup__by_a_login_that_owns_nothing_is_exit_code_9(brokerjobs: Command, shop: str) -> None:
    brokerjobs("setup", shop).fails(9, "may not do this")


def test_setup__without_the_right_to_make_roles_says_which_are_missing(
    offline: Command, databases: Databases, blank_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerjobs.ledger.schema._make_roles", lambda _: ("brokerjobs_producer", "brokerjobs_reader"))

    said = offline("setup", "--database-url", blank_database.owner_url).ok().out

    assert "these are missing: brokerjobs_producer, brokerjobs_reader" in said
    assert "--grant" in said
    assert login_of(blank_database.owner_url)
