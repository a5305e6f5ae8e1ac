"""Variations of URLs."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def with_login(url: str, login: str) -> str:
    """The URL with another `user:password`."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))


def with_path(url: str, path: str) -> str:
    """The URL with another path: a database, or a virtual host."""
    return urlunsplit(urlsplit(url)._replace(path=path))


AWAY_DATABASE = "postgresql://u:s3cret@127.0.0.1:1/nowhere"
AWAY_BROKER = "amqp://u:s3cret@127.0.0.1:1/"
