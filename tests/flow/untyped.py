"""Drivers and toolkits that come without types: imported by name, so that type checkers ask nothing of them."""

from __future__ import annotations

import importlib
from typing import Any

asyncpg: Any = importlib.import_module("asyncpg")
psycopg2: Any = importlib.import_module("psycopg2")
psycopg2_extras: Any = importlib.import_module("psycopg2.extras")
django: Any = importlib.import_module("django")
django_cache: Any = importlib.import_module("django.core.cache")
django_conf: Any = importlib.import_module("django.conf")
django_db: Any = importlib.import_module("django.db")
django_sqlite: Any = importlib.import_module("django.db.backends.sqlite3.base")
django_transaction: Any = importlib.import_module("django.db.transaction")
