"""The protocol as built breaks no promise and can always reach an end; as it was once written it breaks them all."""

from __future__ import annotations

import pytest

from tests.model.runs import AS_BUILT, AS_WRITTEN, Run

pytestmark = pytest.mark.timeout(300)  # bounded by the number of states; the machine may be busy

_MOST_STATES = 200_000


@pytest.mark.parametrize("run", AS_WRITTEN, ids=lambda run: run.name)
def test_runs__find_what_was_wrong_as_written(run: Run) -> None:
    found = run.search(_MOST_STATES)

    assert run.is_as_expected(found), found
    assert found.complete


@pytest.mark.parametrize("run", AS_BUILT, ids=lambda run: run.name)
def test_runs__find_nothing_as_built(run: Run) -> None:
    found = run.search(_MOST_STATES)

    assert found.breaches == {}
    assert found.stuck is None
    assert found.complete
    assert found.states > 1000
