"""Asks the model with other bounds than the tests do: `python -m tests.model --faults 3`; minutes to hours, gigabytes.

A line a run: whether it found what it must find, the states it looked at, and the trace of each broken promise.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.model.runs import AS_BUILT, AS_WRITTEN, Run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="names of runs, all by default")
    parser.add_argument("--faults", type=int, help="faults that may happen in each run, instead of those of the tests")
    parser.add_argument("--most-states", type=int, default=3_000_000, help="give a run up beyond this many states")
    parser.add_argument("--list", action="store_true", help="list the runs and their questions")
    return parser.parse_args()


def _asked(run: Run, most_states: int) -> bool:
    began = time.monotonic()
    found = run.search(most_states)
    as_expected = run.is_as_expected(found)
    seen = f"{found.states} states{'' if found.complete else ' (bound hit, safe as far as seen)'}"
    verdict = "as expected" if as_expected else "NOT AS EXPECTED"
    _say(f"{run.name}: {verdict}; {seen}, {time.monotonic() - began:.0f} s: {run.question}")
    for promise, trace in found.breaches.items():
        _say(f"  {promise}:\n    " + " | ".join(map(str, trace)))
    if found.stuck is not None:
        _say("  no end can be reached after:\n    " + " | ".join(map(str, found.stuck)))
    return as_expected


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Asks the runs that are named; 1 if one does not find what it must find."""
    arguments = _arguments()
    wanted = [run for run in (*AS_WRITTEN, *AS_BUILT) if not arguments.runs or run.name in arguments.runs]
    if arguments.list:
        _say("\n".join(f"{run.name}: {run.question}" for run in wanted))
        return 0
    if arguments.faults is not None:
        wanted = [run if run.breaks or run.is_stuck else run.with_faults(arguments.faults) for run in wanted]
    as_expected = [_asked(run, arguments.most_states) for run in wanted]
    return 0 if all(as_expected) else 1


if __name__ == "__main__":
    sys.exit(main())
