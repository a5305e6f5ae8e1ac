"""Who gets slots and quantities when: no overcommitment, bounded waits, nobody starves."""

from __future__ import annotations

import math
import random
from collections import Counter
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokerjobs.rules.lanes import WEIGHTS, Lane
from tests.unit.line_simulation import MEMORY, Job, Simulation

lanes: st.SearchStrategy[Lane] = st.sampled_from(list(WEIGHTS))
jobs = st.lists(
    st.builds(
        Job,
        received=st.floats(0, 50),
        seconds=st.floats(0.01, 20),
        memory=st.sampled_from([0, 0, 1, 2, 5, 10, 16]),
        added=st.sampled_from([0, 0, 0, 1, 9, 16]),
        lane=lanes,
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(jobs, st.integers(1, 6), st.sampled_from([0.5, 10.0, 1e9]))
def test_line__never_overcommits_and_lets_everyone_start(several: list[Job], slots: int, early: float) -> None:
    done = Simulation(several, slots=slots, early=early).run()
    assert done.most <= MEMORY
    assert len(done.order) == len(several)


def test_two_jobs_of_10__never_run_together_on_16() -> None:
    several = [Job(0, 1, memory=10) for _ in range(50)]
    assert Simulation(several, slots=8).run().most == 10
    assert [job.started for job in several] == list(range(50))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 30), lanes), max_size=40), st.integers(1, 4))
def test_lane__serves_first_who_came_first(several: list[tuple[float, Lane]], slots: int) -> None:
    made = [Job(received, 1, memory=1, lane=lane) for received, lane in sorted(several, key=lambda pair: pair[0])]
    done = Simulation(made, slots=slots).run()
    for lane in WEIGHTS:
        received = [job.received for job in done.order if job.lane == lane]
        assert received == sorted(received)


@pytest.mark.parametrize("memory", [0, 1])
def test_lanes__start_8_to_3_to_1_while_all_wait(memory: int) -> None:
    made = [Job(0, 1, memory=memory, lane=lane) for lane in WEIGHTS for _ in range(400)]
    done = Simulation(made, slots=3).run()
    last_of_high = max(place for place, job in enumerate(done.order) if job.lane == "high")
    shares = Counter(job.lane for job in done.order[: last_of_high + 1])
    assert (shares["high"], shares["normal"], shares["low"]) == pytest.approx((400, 150, 50), abs=2)


def test_job_without_quantities__is_not_held_back() -> None:
    small = [Job(1 + number / 10, 0.1) for number in range(100)]
    Simulation([Job(0, 30, memory=10), Job(0.5, 1, memory=10), *small], slots=4).run()
    assert max(job.waited for job in small) < 0.01


@pytest.mark.parametrize(("seed", "share"), [(seed, share) for seed in range(10) for share in (0.3, 0.6)])
def test_small_job__behind_a_large_one_waits_at_most_two_medians_more(seed: int, share: float) -> None:
    """Compared with the same jobs without the large ones; run times are alike, and the quantity is not used up."""
    rng = random.Random(seed)
    now, small = 0.0, list[Job]()
    while now < 300:
        now += rng.expovariate(share * MEMORY / 1.5)  # about `share` of the memory
        small.append(Job(now, rng.uniform(0.5, 1.5), memory=rng.choice([1, 2])))
    large = [Job(20 + 40 * number, 1, memory=14) for number in range(7)]

    Simulation(small, slots=50).run()
    alone = [job.waited for job in small]
    Simulation(sorted([*small, *large], key=lambda job: job.received), slots=50).run()
    more = [job.waited - before for job, before in zip(small, alone, strict=True)]

    typical = median(job.seconds for job in small)
    # What the large one occupies while it runs is no wait behind it: by then it has left the line.
    assert max(more) <= 2 * typical + max(job.seconds for job in large)
    assert max(job.waited for job in large) <= 2.5 * typical


@pytest.mark.parametrize("memory", [1, 2])
def test_small_job__behind_a_large_one_that_waits_for_a_long_one_waits_at_most_two_medians(memory: int) -> None:
    usual = [Job(0, 1, memory=1) for _ in range(20)]
    late = [Job(14.9 + number, 1, memory=memory) for number in range(10)]
    large = Job(12.5, 1, memory=10)
    Simulation([*usual, Job(12, 40, memory=10), large, *late], slots=8).run()
    assert max(job.waited for job in late) == pytest.approx(2, abs=0.1)
    assert large.waited == pytest.approx(39.5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 10.0, 100.0]), st.sampled_from([2, 5, 20]))
@example(0, 100.0, 20)
def test_large_job__starts_in_bounded_time_however_much_comes(seed: int, longest: float, slots: int) -> None:
    """There is always more small work than fits, and some of it runs a hundred times as long as the rest."""
    rng = random.Random(seed)
    small = [
        Job(0, rng.uniform(0.5, 1) if rng.random() < 0.8 else rng.uniform(0.5, longest), memory=1) for _ in range(1500)
    ]
    large = Job(0, 1, memory=MEMORY)
    Simulation([*small[:100], large, *small[100:]], slots=slots, prefetch=slots + 5).run()
    assert large.waited <= bound(longest, 1.0)


def bound(longest: float, typical: float) -> float:
    """Every time that the line is held longer, until it is held for the longest run time."""
    rounds = 4 + max(0, math.ceil(math.log2(longest / (2 * typical))))
    held = sum(2 * typical * 2.0 ** max(0, number - 3) for number in range(rounds + 1))
    return held + (rounds + 1) * typical + 2 * longest


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_large_job__is_not_passed_for_ever_by_attempts_that_need_more_than_their_route(seed: int) -> None:
    rng = random.Random(seed)
    several = [Job(number * 0.1, rng.uniform(0.5, 1), added=rng.choice([1, 2, 4])) for number in range(500)]
    large = Job(5, 1, memory=14)
    Simulation(sorted([*several, large], key=lambda job: job.received), slots=4).run()
    assert large.waited <= bound(1.0, 1.0)


def test_holder__is_claimed_early_and_keeps_its_place() -> None:
    first, large, small = Job(0, 100, memory=10), Job(1, 1, memory=10), Job(2, 1, memory=10)
    done = Simulation([first, large, small], slots=3, early=5).run()
    assert [job.started for job in done.order] == [0, 100, 101]
