from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules.leases import check_renewal, renew_after, trusted_until

LEASE = timedelta(seconds=30)


@given(st.floats(0, 1))
def test_renew_after__is_a_third_give_or_take_a_tenth(drawn: float) -> None:
    assert timedelta(seconds=9) <= renew_after(LEASE, drawn) <= timedelta(seconds=11)


def test_renew_after__uses_the_whole_spread() -> None:
    assert [renew_after(LEASE, drawn) for drawn in (0.0, 0.5, 1.0)] == [
        timedelta(seconds=9),
        timedelta(seconds=10),
        timedelta(seconds=11),
    ]


def test_check_renewal__leaves_time_for_a_second_try() -> None:
    check_renewal(LEASE, timedelta(seconds=15))

    with pytest.raises(
        ConfigurationError, match=r"worker.renewal = 15s0.001ms is over half of the lease 30s of job type"
    ):
        check_renewal(LEASE, timedelta(seconds=15, microseconds=1), job_type="payment.charge")


def test_trusted_until__counts_from_before_the_request() -> None:
    assert trusted_until(100.0, timedelta(seconds=29.5)) == 129.5
