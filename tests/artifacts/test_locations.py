"""URLs of stores: which are taken, what is recorded of them, and that their secrets are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerjobs.artifacts.locations import StoreOptions, located
from brokerjobs.artifacts.store import ArtifactStore
from brokerjobs.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("/var/lib/artifacts", "file:///var/lib/artifacts"),
        ("/var/lib/../lib//artifacts/", "file:///var/lib/artifacts"),
        ("file:///var/lib/artifacts", "file:///var/lib/artifacts"),
        ("file://localhost/var/with%20space", "file:///var/with%20space"),
        ("/var/with space", "file:///var/with%20space"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/some//prefix/", "s3://bucket/some/prefix"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        ("az://container/prefix", "az://container/prefix"),
        ("abfss://files@account.dfs.core.windows.net/x", "abfss://files@account.dfs.core.windows.net/x"),
    ],
)
def test_located__names_a_store_in_one_way(url: str, public: str) -> None:
    assert located(url).public == public


def test_located__folder_of_the_user_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert located(None).folder == tmp_path / "brokerjobs" / "artifacts"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert located(None).folder == tmp_path / "home" / ".local" / "share" / "brokerjobs" / "artifacts"
    assert not (tmp_path / "home").exists()


def test_located__user_without_a_home_has_to_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigurationError, match=r"artifacts\.url is not set"):
        located(None)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "absolute path"),
        ("artifacts", "absolute path"),
        ("~/artifacts", "absolute path"),
        ("/", "a folder for artifacts alone"),
        ("file:///", "a folder for artifacts alone"),
        ("/var/\x00x", "printable"),
        ("file://elsewhere/var", "of this machine"),
        ("file:relative", "file:///FOLDER"),
        ("memory://", "of one process alone"),
        ("http://bucket.example/x", "no store for http://"),
        ("ftp://host/x", "no store for ftp://"),
        ("s3://", "name of a bucket"),
        ("s3:///prefix", "name of a bucket"),
        ("s3://bucket/a/../b", r"without \. and \.\."),
        ("s3://buc ket/x", "absolute path nor a URL"),
        ("s3://bucket/\nx", "absolute path nor a URL"),
        ("s3://[bucket/x", "no URL"),
    ],
)
def test_located__refuses(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        located(url)
    assert "artifacts.url" in str(raised.value)


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("s3://user:hidden-value@bucket/x", "AWS_SECRET_ACCESS_KEY"),
        ("s3://hidden-value@bucket/x", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/x?secret=hidden-value", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/x#hidden-value", "AWS_SECRET_ACCESS_KEY"),
        ("gs://user:hidden-value@bucket/x", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/x?sv=1&sig=hidden-value", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfss://files:hidden-value@account.dfs.core.windows.net/x", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_located__refuses_secrets_without_repeating_them(url: str, variable: str) -> None:
    with pytest.raises(ConfigurationError, match=variable) as raised:
        located(url)
    assert "hidden-value" not in str(raised.value)
    assert "artifacts.options" in str(raised.value)


def test_store__of_a_folder_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"artifacts\.options"):
        ArtifactStore(StoreOptions(url=str(tmp_path), options={"region": "eu-central-1"}))


def test_store__making_it_touches_nothing(tmp_path: Path) -> None:
    ArtifactStore(StoreOptions(url=str(tmp_path / "store")))
    assert list(tmp_path.iterdir()) == []
    ArtifactStore(StoreOptions(url="s3://bucket/x", options={"endpoint": "http://127.0.0.1:9"}))
