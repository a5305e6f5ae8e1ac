"""A program whose Django uses psycopg2, as before it knew psycopg 3: `python -m tests.flow.older_django`.

Submits and completes in atomic blocks, and prints what it was told as one JSON object.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

sys.modules["psycopg"] = None  # type: ignore[assignment]  # Django looks for it first, and brokerjobs always has it
importlib.import_module("django.db.backends.postgresql.base")
del sys.modules["psycopg"]

from brokerjobs import App, BrokerjobsError  # noqa: E402
from brokerjobs.effects.transaction import Place, sync_complete  # noqa: E402
from brokerjobs.ledger.calls import Holding  # noqa: E402
from tests.flow import djangos  # noqa: E402
from tests.flow.producing import Charge, Receipt  # noqa: E402
from tests.flow.untyped import django_transaction as transaction  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """What a web process does, then what a handler does."""
    given = json.loads(os.environ["OLDER_DJANGO"])
    charge = App(given["namespace"]).job_type("payment.charge", Charge, Receipt, repeatable=True, queue="payments")
    told: dict[str, str] = {}

    def try_out(name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except BrokerjobsError as error:
            told[name] = f"{type(error).__name__}: {error}"

    client = App(charge.namespace).sync_client(submitted_by="older")
    with client, djangos.database(given["producer_url"]) as connection:

        def order(number: int) -> None:
            with connection.cursor() as cursor:
                cursor.execute("insert into orders values (%s, %s)", [charge.namespace, number])

        def submit(key: str, cents: int = 1) -> None:
            client.submit(charge, Charge(cents=cents), key=key, within=connection)

        try_out("autocommit", lambda: submit("loose"))
        told["driver"] = type(connection.connection).__module__.partition(".")[0]
        with transaction.atomic():
            order(1)
            submit("order-1")
            try_out("conflict", lambda: submit("order-1", cents=2))
            order(2)
        with transaction.atomic():
            submit("order-2")
            transaction.set_rollback(True)
    with djangos.database(given["worker_url"]) as connection:
        for number, name in ((3, "current"), (4, "stale")):
            job, attempt, fencing_number = given[name]
            place = Place(Holding(UUID(job), UUID(attempt), fencing_number), charge)
            with transaction.atomic():
                order(number)
                try_out(name, partial(sync_complete, place, Receipt(reference="r"), within=connection))
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
