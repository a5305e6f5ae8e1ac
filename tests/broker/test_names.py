from __future__ import annotations

import pytest

from brokerjobs.broker import names


def test_names__are_the_documented_ones() -> None:
    assert names.jobs_exchange("payments") == "payments.jobs"
    assert names.route_name("payments", "eu.cards") == "payments.q.eu.cards"
    assert (names.dead_exchange("payments"), names.dead_queue("payments")) == ("payments.dead", "payments.dead")
    assert names.quarantine_exchange("payments") == names.quarantine_queue("payments") == "payments.quarantine"


def test_namespace_of__is_the_part_before_the_first_q() -> None:
    assert names.namespace_of(names.route_name("payments", "a.q.b")) == "payments"


@pytest.mark.parametrize("name", ["payments", "payments.q.", ".q.default", "a.b.q.default", "payments.dead", ""])
def test_namespace_of__refuses_what_is_no_route(name: str) -> None:
    with pytest.raises(ValueError, match="is no route"):
        names.namespace_of(name)
