"""`brokerjobs setup`: what it makes, what it says, and what a repeat changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from brokerjobs.ledger import schema
from tests.cli.urls import with_login, with_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command
    from tests.conftest import PostgresFactory
    from tests.databases import Database


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
        text.replace('"add", repeatable=True', '"add", repeatable=False, needs=[needs.equal("gpu", "a100")]')
        .replace("import App", "import needs, App")
        .replace("cents: int", "cents: float")
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
    assert "  needs: gpu=a100 → none\n" in said


def test_setup__as_json_is_one_object(ready: Command, as_owner: dict[str, str], shop: str, namespace: str) -> None:
    done = ready("setup", shop, "-o", "json", env=as_owner).json()

    assert done["schema"] == "brokerjobs.setup/1"
    assert done["ledger"]["version"] == schema.code_version()
    assert [one["name"] for one in done["types"]] == ["add", "refuse", "unclear"]
    assert done["routes"] == [f"{namespace}.q.default", f"{namespace}.q.sums"]


def test_grant__lets_a_login_submit(
    ready: Command, database: Database, as_owner: dict[str, str], namespace: str
) -> None:
    login = f"cli_{namespace}"
    url = with_login(database.owner_url, f"{login}:pw")
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'pw'").format(sql.Identifier(login)))
    submit = ("submit", f"{namespace}/add", "1", "--database-url", url)
    try:
        ready(*submit).fails(9, "schema")
        ready("setup", "--grant", f"producer={login}", "--grant", f"reader={login}", env=as_owner).ok()
        ready(*submit).ok()
    finally:
        with psycopg.connect(database.admin_url, autocommit=True) as admin:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


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


def test_setup__without_the_right_to_make_roles_gives_their_functions_to_logins(
    offline: Command, postgres_factory: PostgresFactory, namespace: str, shop: str, broker_url: str
) -> None:
    # Roles belong to a whole server, so this needs one that no other test has made them on.
    admin_url = postgres_factory().url
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("create role managed login password 'pw' nocreaterole")
        admin.execute("create role orders login password 'pw'")
        admin.execute("create database ledger owner managed")
    owner_url, orders_url = (
        with_path(with_login(admin_url, f"{login}:pw"), "/ledger") for login in ("managed", "orders")
    )
    setup = ("setup", shop, "--database-url", owner_url, "--broker-url", broker_url)

    said = offline(*setup).ok().out
    assert "may not create roles" in said
    assert "brokerjobs_producer, brokerjobs_worker, brokerjobs_coordinator, brokerjobs_reader" in said
    submit = ("submit", f"{namespace}/add", "1", "--database-url", orders_url)
    offline(*submit).fails(9)
    assert "granted producer to orders" in offline(*setup, "--grant", "producer=orders").ok().out
    offline(*submit).ok()
