"""Django in a test process: its `default` database is whichever the test at hand uses."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict

from tests.flow.untyped import django, django_conf, django_db

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def database(url: str, **options: Any) -> Generator[Any]:
    """Lets `django.db.connection` lead to a database, and answers it."""
    if not django_conf.settings.configured:
        django_conf.settings.configure(USE_TZ=True)
        django.setup()
    parts = conninfo_to_dict(url)
    told = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "PASSWORD": parts.get("password", ""),
        "HOST": parts["host"],
        "PORT": parts.get("port", ""),
        "OPTIONS": options,
    }
    connections = django_db.connections
    connections.databases["default"] = connections.configure_settings({"default": told})["default"]
    try:
        yield django_db.connection
    finally:
        django_db.connection.close()
        del connections["default"]
