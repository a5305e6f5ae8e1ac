"""What doctor reads of the ledger: whole, for every login, and the functions as this code has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from brokerjobs.ledger import inspection
from tests.databases import KINDS

if TYPE_CHECKING:
    from tests.ledger.ledger_driver import Ledger


def looked(ledger: Ledger, kind: str = "reader") -> inspection.LedgerLook:
    (row,) = ledger.open(kind).fetch(inspection.look())
    return row.look()


def test_functions__of_a_ledger_that_was_just_set_up_are_those_of_this_code(ledger: Ledger) -> None:
    there, here = looked(ledger).functions, inspection.functions_of_this_code()
    del there["clock"], here["clock"]  # replaced by these tests

    assert there == here


@pytest.mark.parametrize(
    "change",
    [
        "create or replace function brokerjobs.rfc3339(t timestamptz) returns text as 'select t::text' language sql",
        "alter function brokerjobs.find(text, text, text) security invoker",
        "alter function brokerjobs.find(text, text, text) set search_path = public",
        "alter function brokerjobs.cancel(uuid, text, text) reset lock_timeout",
        "drop function brokerjobs.cancel_v1(uuid, text, text)",
    ],
)
def test_functions__that_were_changed_by_hand_differ(own_ledger: Ledger, change: str) -> None:
    before = looked(own_ledger).functions
    own_ledger.owner.execute(change.encode())
    after = looked(own_ledger).functions

    assert len([name for name in before if before[name] != after.get(name)]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_look__is_for_every_login(ledger: Ledger, kind: str) -> None:
    look = looked(ledger, kind)

    assert look.login == f"brokerjobs_test_{kind}"
    assert f"brokerjobs_{kind}" in look.may
    assert look.may[look.login] == look.may[f"brokerjobs_{kind}"]
