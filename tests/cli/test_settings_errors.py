"""Settings that are missing or wrong: exit code 3, and never a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command

JOB = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_database_url__that_is_not_set_is_said(offline: Command) -> None:
    offline("jobs", "show", JOB).fails(3, "database_url is not set", "BROKERJOBS_DATABASE_URL")


def test_broker_url__that_is_not_set_is_said_before_anything_is_changed(offline: Command, shop: str) -> None:
    away = "postgresql://127.0.0.1:1/nowhere"

    offline("setup", shop, "--database-url", away).fails(3, "broker_url is not set")
    offline("worker", shop, "--database-url", away).fails(3, "broker_url is not set")
    offline("coordinator", "--database-url", away).fails(3, "broker_url is not set")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:s3cret@h/db",
        "postgresql://u:s3cret%zz@h/db",
        "postgresql://u:s3cret@h:port/db",
        "postgresql://u:s3cret@h/db?colour=blue",
        "postgresql://u:s3 cret@h/db",
    ],
)
def test_database_url__that_cannot_be_read_is_said_without_its_password(offline: Command, url: str) -> None:
    said = offline("jobs", "show", JOB, "--database-url", url).fails(3)

    assert "s3" not in said
    assert "cret" not in said


@pytest.mark.parametrize("url", ["http://u:s3cret@h/", "amqp://u:s3cret@h:port/"])
def test_broker_url__that_cannot_be_read_is_said_without_its_password(offline: Command, shop: str, url: str) -> None:
    done = offline("coordinator", "--database-url", "postgresql://127.0.0.1:1/nowhere", "--broker-url", url)

    assert "s3cret" not in done.fails(3, "broker")


def test_settings__that_are_no_text_are_refused_without_showing_them(offline: Command, folder: Path) -> None:
    args = ("jobs", "list")

    said = offline.process(*args, env={"BROKERJOBS_DATABASE_URL": "postgresql://u:s3cret\udcff@h/x"}).fails(
        3, "database_url (environment, BROKERJOBS_DATABASE_URL): has a NUL, or bytes that are not UTF-8"
    )
    assert "s3cret" not in said
    (folder / "brokerjobs.toml").write_text('[worker]\nname = "a\\u0000"\n')
    offline(*args, "--database-url", "postgresql://h/x").fails(3, "worker.name (brokerjobs.toml): has a NUL")


def test_settings__are_refused_if_unknown_or_wrong(offline: Command, folder: Path) -> None:
    offline("jobs", "list", env={"BROKERJOBS_DATABSE_URL": "x"}).fails(3, "BROKERJOBS_DATABASE_URL")
    offline("worker", "--drain", "soon").fails(3, "worker.drain")
    (folder / "brokerjobs.toml").write_text("[worker]\nconcurency = 3\n")
    offline("jobs", "list").fails(3, "worker.concurrency")
    (folder / "brokerjobs.toml").write_text("[worker\n")
    offline("jobs", "list").fails(3, "brokerjobs.toml")
