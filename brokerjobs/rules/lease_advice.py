"""Which lease, renewal interval and time limit the recorded attempts of a job type speak for; all times are seconds.

A lease has to outlast the longest delay of a renewal: renewed at a third of it, a delay may take the other two thirds.
What is advised takes twice the delay that all but a tolerated share of the attempts stayed below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from brokerjobs.rules import lease_choices
from brokerjobs.rules.durations import YEAR
from brokerjobs.rules.lease_choices import Detection, LeaseChoice, LimitChoice, Replay
from brokerjobs.rules.lease_history import THIRD, Fate, PastAttempt, Spread, all_but, share_of_lease, spread
from brokerjobs.rules.terms import MAX_LEASE, MIN_LEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

# Without one bad attempt among so many, fewer than one in a hundred are bad (95 % confidence: the "rule of three").
NEEDED: Final = 300
# A false expiry of a type that may be repeated costs a retry, of another a person's decision.
TOLERATED: Final = {True: 0.001, False: 0.0001}
# The reaper takes no pause of the ledger of up to 5 s for an outage (lease_is_over): a lease has to outlast one.
LEAST_LEASE: Final = 5 / (1 - THIRD)
_SAFETY: Final = 2.0  # the next weeks may be worse than these
_LIMIT_SAFETY: Final = 5.0  # cutting a slow handler short costs its work, a hung one only holds a slot for longer
_ENOUGH, _MUCH = 0.8, 1.5  # of what is advised: within these the current value stays
_UNSEEN: Final = Detection(1.0, 1.0)  # a tick of the reaper, if none was seen
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_STEPS: Final = (  # durations that people would write
    *(1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0),
    *(_MINUTE * count for count in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45)),
    *(_HOUR * count for count in (1, 1.5, 2, 3, 4, 6, 8, 12)),
    *(_DAY * count for count in (1, 2, 3, 5, 7, 10, 14, 30, 60, 90, 180, 365)),
)


class Verdict(StrEnum):
    """What is advised of a value."""

    KEEP = "keep"
    SHORTEN = "shorten"
    LENGTHEN = "lengthen"
    TOO_LITTLE_DATA = "too_little_data"


@dataclass(frozen=True, slots=True)
class Current:
    """A type's terms as they are."""

    lease: float
    time_limit: float
    repeatable: bool


@dataclass(frozen=True, slots=True)
class Advised:
    """What is advised of a lease or of a time limit."""

    verdict: Verdict
    seconds: float | None
    """None if there is too little data."""
    has: int
    """Attempts that say something about it."""
    needs: int


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """How many attempts leave something open."""

    never_renewed: int
    """They ended before a renewal was due: of delays and round trips they say nothing."""
    not_told: int
    """They renewed, and how that went was not told."""
    false_expiries: int
    """For how long they were silent is known only to lie between their lease and their report."""
    silent: int
    """Their worker may have died, or been slow and never come back: they count as died."""
    limited: int
    """They were ended by their time limit: how long they would have taken nobody knows."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the attempts of a type say."""

    attempts: int
    fates: dict[str, int]
    lease: Advised
    renewal_seconds: float | None
    """A third of the advised lease: what workers do if `worker.renewal` is left out."""
    time_limit: Advised
    current_renewal_seconds: float
    renewal_is_seen: bool
    """False: no attempt renewed, a third is assumed."""
    detection_is_seen: bool
    """False: no lease was given up, one tick of the reaper is assumed."""
    handler: Spread
    delay: Spread
    round_trip: Spread
    choices: tuple[LeaseChoice, ...]
    limits: tuple[LimitChoice, ...]
    unrecorded: Unrecorded


def advise(current: Current, attempts: Sequence[PastAttempt]) -> Advice:
    """What these attempts, which have all ended, speak for; never anything out of the bounds of a job type's terms."""
    seen = share_of_lease(attempts)
    share = THIRD if seen is None else seen
    fates = [(one, one.fate(share * one.lease)) for one in attempts]
    counts = {fate.value: sum(found is fate for _, found in fates) for fate in Fate}
    delays, lives, not_told = _said(attempts, share)
    found = _Found(
        delays=delays,
        lives=lives,
        expired=[(one, share * one.lease) for one, fate in fates if fate is Fate.FALSE_EXPIRY],
    )
    late = [one.closed - one.granted - one.lease for one, fate in fates if fate in {Fate.SILENT, Fate.FALSE_EXPIRY}]
    detection = Detection(max(0.0, all_but(late, 0.5)), max(0.0, *late)) if late else _UNSEEN
    replay = Replay(attempts, share, detection)
    as_is = replay.lease("current", current.lease, share * current.lease)
    lease = _lease(current, found, as_is)
    others = _others(current.lease, lease.seconds, MIN_LEASE.total_seconds(), MAX_LEASE.total_seconds())
    durations = [one.duration for one in attempts if one.completed]
    limited = sum(one.limited for one in attempts)
    limit = _time_limit(current, durations, lease.seconds or current.lease)
    limits = {"current": current.time_limit} | _others(current.time_limit, limit.seconds, 1e-6, YEAR.total_seconds())
    return Advice(
        attempts=len(attempts),
        fates=counts,
        lease=lease,
        renewal_seconds=None if lease.seconds is None else lease.seconds * THIRD,
        time_limit=limit,
        current_renewal_seconds=as_is.renewal_seconds,
        renewal_is_seen=seen is not None,
        detection_is_seen=bool(late),
        handler=spread(durations),
        delay=spread(delays),
        round_trip=spread([one.longest_round_trip for one in attempts if one.longest_round_trip is not None]),
        choices=(as_is, *(replay.lease(name, seconds, seconds * THIRD) for name, seconds in others.items())),
        limits=tuple(lease_choices.of_limit(name, seconds, durations) for name, seconds in limits.items()),
        unrecorded=Unrecorded(len(lives), not_told, counts["false_expiry"], counts["silent"], limited),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What speaks for a lease."""

    delays: Sequence[float]
    lives: Sequence[float]
    """Of attempts that ended before a renewal was due."""
    expired: Sequence[tuple[PastAttempt, float]]
    """False expiries, with the intervals of their renewals."""

    def needed(self, tolerated: float) -> float:
        """The lease that they need."""
        enough = [delay / (1 - THIRD) for delay in self.delays]
        lease = _SAFETY * all_but(enough, tolerated)
        if len(self.delays) < NEEDED:  # then attempts shall be able to end without any renewal
            lease = max(lease, _SAFETY * all_but(self.lives, tolerated))
        # How much longer than its lease it was silent is not known: one doubling at a time.
        more = [min(_longest(one, interval) / (1 - THIRD), 2 * one.lease) for one, interval in self.expired]
        return max(lease, all_but([*enough, *[0.0] * len(self.lives), *more], tolerated), LEAST_LEASE)


def _longest(one: PastAttempt, interval: float) -> float:
    return (one.reported or 0.0) - one.granted - interval


def _said(attempts: Sequence[PastAttempt], share: float) -> tuple[list[float], list[float], int]:
    """Delays, where they are known; lives of those that ended before a renewal was due; how many are neither."""
    delays: list[float] = []
    lives: list[float] = []
    not_told = 0
    for one in attempts:
        if one.lost:
            continue
        if (delay := one.delay(share * one.lease)) is not None:
            delays.append(delay)
        elif one.renewals == 0:
            lives.append(one.life)
        else:
            not_told += 1
    return delays, lives, not_told


def _lease(current: Current, found: _Found, as_is: LeaseChoice) -> Advised:
    has = len(found.delays) + len(found.lives) + len(found.expired)
    if has < NEEDED:
        return Advised(Verdict.TOO_LITTLE_DATA, None, has, NEEDED)
    tolerated = TOLERATED[current.repeatable]
    low, high = MIN_LEASE.total_seconds(), MAX_LEASE.total_seconds()
    wanted = min(max(rounded_up(found.needed(tolerated)), low), high)
    fails = as_is.false_expiries + as_is.possible > int(tolerated * has)
    return _settled(current.lease, wanted, has, fails=fails)


def _time_limit(current: Current, durations: Sequence[float], lease: float) -> Advised:
    """Handlers that the current limit ended say nothing: if they are slow, others nearly reached it; else they hung."""
    has = len(durations)
    if has < NEEDED:
        return Advised(Verdict.TOO_LITTLE_DATA, None, has, NEEDED)
    usual = all_but(durations, TOLERATED[current.repeatable])
    # It shall not cut what a lease is there to outlast, nor what completed before.
    wanted = max(_LIMIT_SAFETY * usual, 2 * max(durations), lease)
    return _settled(current.time_limit, min(rounded_up(wanted), YEAR.total_seconds()), has, fails=False)


def _settled(current: float, wanted: float, has: int, *, fails: bool) -> Advised:
    near = _ENOUGH * wanted <= current <= _MUCH * wanted
    if wanted == current or (near and not fails):
        return Advised(Verdict.KEEP, current, has, NEEDED)
    return Advised(Verdict.LENGTHEN if wanted > current else Verdict.SHORTEN, wanted, has, NEEDED)


def _others(current: float, advised: float | None, low: float, high: float) -> dict[str, float]:
    """The advised value, one of half of it and one of twice, within the bounds and other than the current one."""
    about = current if advised is None else advised
    wanted = {"advised": about, "shorter": max(low, about / 2), "longer": min(high, about * 2)}
    chosen: dict[str, float] = {}
    for name, seconds in wanted.items():
        if seconds != current and seconds not in chosen.values():
            chosen[name] = seconds
    return chosen


def rounded_up(seconds: float) -> float:
    """The next duration that people would write, at least a second and at most a year."""
    return next((step for step in _STEPS if step >= seconds), _STEPS[-1])
