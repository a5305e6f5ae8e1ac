"""Flaws of artifacts that the triples must catch, as in `flaws.py`."""

from __future__ import annotations

from typing import Final

from tests.ledger.interleavings.artifact_promises import FIRST, NOT_LOST, THERE
from tests.ledger.interleavings.flaws import Flaw

_NAMED: Final = "and artifacts_problem(s, v_result) is not null then"
_LOOK_AGAIN: Final = "    select * into a from artifact x where x.id = v_id for update skip locked;\n"
_LOST: Final = "or a.closed_as = 'timed_out' and a.closed_why is distinct from 'deadline'"
_UPLOAD: Final = "ready and late complete, claim, sweep"

FLAWS: Final = (
    Flaw(
        "a result is accepted whatever it names",
        _UPLOAD,
        THERE,
        (("complete", _NAMED, "and false then"),),
    ),
    Flaw(
        "the sweeper decides on what it saw before it held the upload",
        _UPLOAD,
        THERE,
        (
            (
                "artifacts_to_remove",
                _LOOK_AGAIN,
                _LOOK_AGAIN.replace("select * into a from", "perform from"),
            ),
        ),
    ),
    Flaw(
        "an attempt that was given up counts as one that cannot be accepted",
        "late complete with an artifact, claim, sweep",
        NOT_LOST,
        (
            ("may_be_accepted", "holds_place(s, a.id, a.fencing_number)\n", "s.state = 'running'\n"),
            ("may_be_accepted", _LOST, "or false"),
        ),
    ),
    Flaw(
        "a kept success counts as one that nobody can accept",
        "adopt with an artifact, replay, sweep",
        NOT_LOST,
        (("may_be_accepted", _LOST, "or false"),),
    ),
    Flaw(
        "a second acknowledgement takes the place of the first",
        "acknowledge, acknowledge by another, sweep",
        FIRST,
        (("acknowledge_artifact_v1", "    if v_before is null then\n", "    if true then\n"),),
        ("artifact_facts_once",),
    ),
    Flaw(
        "the sweeper decides on what it saw before somebody acknowledged",
        "acknowledge, acknowledge by another, sweep",
        "no call fails",
        (
            (
                "artifacts_to_remove",
                _LOOK_AGAIN,
                _LOOK_AGAIN.replace("select * into a from", "perform from"),
            ),
        ),
    ),
)
