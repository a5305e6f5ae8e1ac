"""`python -m brokerjobs.servers`: installs what the tests need and this machine lacks."""

from __future__ import annotations

import os

from brokerjobs.servers import finder

if __name__ == "__main__" and not os.environ.get(f"{finder.TEST_PREFIX}_BROKER_URL"):
    finder.provide_rabbitmq()
