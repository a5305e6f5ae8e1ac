"""`make servers`: what it prints is where two servers are, and they end with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest

SERVING = [sys.executable, "-m", "brokerjobs.servers.serving"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serving__says_where_both_are_and_ends_them_when_it_is_told(how: signal.Signals) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BROKERJOBS_")}
    # A broker that is given is taken as it is, so that this starts none.
    environment["BROKERJOBS_DEMO_BROKER_URL"] = "amqp://somewhere/"
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(SERVING, stdout=subprocess.PIPE, text=True, env=environment))
        stack.callback(process.kill)
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        found = re.fullmatch(r"export BROKERJOBS_DATABASE_URL='(postgresql://[^']+)'\n", first)
        assert found is not None
        assert second == "export BROKERJOBS_BROKER_URL='amqp://somewhere/'\n"
        with psycopg.connect(found[1]) as connection:
            connection.execute("create table mine ()")

        process.send_signal(how)

        assert process.wait(30) == 0
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(found[1])
