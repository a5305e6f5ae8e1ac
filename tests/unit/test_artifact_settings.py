"""The group `artifacts`: what a store is told stays secret, and what cannot be is refused without being shown."""

from __future__ import annotations

import json
import os
import traceback
from datetime import timedelta
from pathlib import Path

import pytest

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.texts import redacted
from brokerjobs.settings_loading import load_settings

OPTIONS = "BROKERJOBS_ARTIFACTS__OPTIONS"
URL = "BROKERJOBS_ARTIFACTS__URL"
SAID = {"region": "eu-central-1", "access_key_id": "anna", "secret_access_key": "s3cret=key/1"}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.upper().startswith("BROKERJOBS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("brokerjobs.toml").write_text(f"[artifacts]\n{text}\n", encoding="utf-8")


def refusal() -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown
    (line,) = str(caught.value).splitlines()[1:]
    return line


def options() -> dict[str, str]:
    return {key: value.get_secret_value() for key, value in load_settings().artifacts.options.items()}


@pytest.mark.parametrize("text", [json.dumps(SAID), ", ".join(f"{key}={said}" for key, said in SAID.items())])
def test_options__come_from_a_variable(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(OPTIONS, text)

    assert options() == SAID


def test_options__come_from_a_table_and_are_joined_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[artifacts.options]\nregion = 'eu'\nendpoint = 'https://s3'\nallow_http = true\nport = 9000")
    monkeypatch.setenv(OPTIONS, "region=us")

    assert options() == {"region": "us", "endpoint": "https://s3", "allow_http": "true", "port": "9000"}


def test_options__are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS, json.dumps(SAID))

    settings = load_settings()

    shown = f"{settings!r} {settings} {settings.artifacts} {settings.artifacts.options} {settings.model_dump_json()}"
    assert "s3cret" not in shown
    assert "anna" not in shown
    # What a store says of its key later is no text of ours.
    assert redacted("the key s3cret=key/1 has expired") == "the key *** has expired"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("options = 's3cret'", "must be texts such as"),
        ("options = '{s3cret'", "Expecting property name"),
        ("options = 'a=s3cret, a=s3cret'", "a key is said twice"),
        ("options = 'a=b, s3cret='", "value 2 is not a text of 1 to 10000 characters"),
        ("options = 'access key=s3cret'", "key 1 is not 1 to 100 letters, digits and _"),
        ("options = 3", "must be a table of texts"),
        ("options = ['s3cret']", "must be a table of texts"),
        ("options = { key = ['s3cret'] }", "value 1 is not a text of"),
        ("options = { key = { s3cret = 's3cret' } }", "value 1 is not a text of"),
        ('options = { key = "s3cret\\u0000" }', "value 1 is not a text of"),
    ],
)
@pytest.mark.parametrize("by_variable", [True, False])
def test_options__say_what_is_wrong_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, said: str, problem: str, by_variable: bool
) -> None:
    if by_variable and said.endswith("'"):
        monkeypatch.setenv(OPTIONS, said.split("'")[1])
    else:
        write(said)

    line = refusal()

    assert line.startswith("  artifacts.options = *** ("), line
    assert problem in line


@pytest.mark.parametrize(
    "url",
    [
        "s3://anna:s3cret@bucket/prefix",
        "s3://s3cret@bucket",
        "s3://bucket/prefix?key=s3cret",
        "s3://bucket/prefix#s3cret",
        "https://:s3cret@store/",
        "abfss://files:s3cret@account.dfs.core.windows.net",
        "s3cret",
        "s3://bucket/s3cret prefix",
        "s3://[s3cret",
    ],
)
@pytest.mark.parametrize("by_variable", [True, False])
def test_url__that_has_a_secret_or_is_none_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, url: str, by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv(URL, url)
    else:
        write(f"url = '{url}'")

    line = refusal()

    origin = f"environment, {URL}" if by_variable else "brokerjobs.toml"
    assert line.startswith(f"  artifacts.url = *** ({origin}): must "), line


@pytest.mark.parametrize(
    "url",
    ["/srv/artifacts", "/srv/a?b#c@d", "s3://bucket/a/b", "file:///srv", "abfss://files@a.dfs.core.windows.net/x"],
)
def test_url__may_be_a_folder_or_a_bucket(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(URL, url)

    assert load_settings().artifacts.url == url


@pytest.mark.parametrize(
    ("said", "size"), [("5", 5), ("'5'", 5), ("'64GiB'", 64 * 2**30), ("'1.5kB'", 1500), ("'5TiB'", 5 * 2**40)]
)
def test_max_size__is_bytes(said: str, size: int) -> None:
    write(f"max_size = {said}")

    assert load_settings().artifacts.max_size == size


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("max_size = '6TiB'", "less than or equal to 5497558138880"),
        ("max_size = 0", "greater than or equal to 1"),
        ("max_size = true", "must be a number, not true or false"),
        ("max_size = 'much'", "is not a quantity"),
        ("max_size = '1.5'", "valid integer"),
        ("keep = '59s'", "must be between 60 and 3.1536e+07 seconds"),
        ("keep = '366d'", "is not between zero and one year"),
        ("incomplete = 'soon'", "is not a duration"),
        ("sweep = '2h'", "must be between 0.01 and 3600 seconds"),
        ("remove_orphans_after = '59m'", "must be between 3600 and 3.1536e+07 seconds"),
    ],
)
def test_bounds__are_said(said: str, problem: str) -> None:
    write(said)

    assert problem in refusal()


def test_orphans__are_removed_if_that_is_asked_for() -> None:
    write("remove_orphans_after = '30d'")

    assert load_settings().artifacts.remove_orphans_after == timedelta(days=30)
