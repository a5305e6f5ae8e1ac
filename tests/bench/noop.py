"""The worker process of the benchmark: one job type whose handler does nothing."""

from __future__ import annotations

import os
import sys

from brokerjobs import App
from brokerjobs.settings_loading import load_settings
from brokerjobs.wiring import run_worker

app = App(os.environ.get("BROKERJOBS_TEST_NAMESPACE", "bench"))


@app.job("noop", repeatable=True)
async def noop(payload: int) -> None:
    """Nothing."""


if __name__ == "__main__":
    sys.exit(run_worker(app, load_settings()))
