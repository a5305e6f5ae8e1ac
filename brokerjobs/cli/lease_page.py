"""How advice on leases is shown: one page a job type, or one object."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.cli import moments
from brokerjobs.rules.durations import show_duration
from brokerjobs.rules.lease_advice import Verdict
from brokerjobs.rules.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerjobs.ledger.lease_history import LeaseHistory
    from brokerjobs.rules.lease_advice import Advice, Advised
    from brokerjobs.rules.lease_history import Spread

_GAP: Final = "  "
_RULE_OF_THREE: Final = 3
_OTHER_THIRD: Final = 0.15  # of a third of the lease: by so much an interval may differ from one


def as_json(history: LeaseHistory, advice: Advice) -> dict[str, Any]:
    """One object of the schema `brokerjobs.lease_advice/1`."""
    return {
        "schema": "brokerjobs.lease_advice/1",
        "namespace": history.namespace,
        "type": history.type,
        "repeatable": history.repeatable,
        "terms": {"lease_seconds": history.lease_seconds, "time_limit_seconds": history.time_limit_seconds},
        "sample": {
            "since": moments.rfc3339(history.looked_from),
            "oldest": moments.rfc3339(history.oldest),
            "newest": moments.rfc3339(history.newest),
            "whole": history.whole,
            "looked": history.looked,
            "running": history.running,
        },
        **asdict(advice),
    }


def page(history: LeaseHistory, advice: Advice, since: timedelta) -> Iterator[str]:
    """The lines of a page."""
    repeatable = "repeatable" if history.repeatable else "not repeatable"
    lease, limit = _exact(history.lease_seconds), _exact(history.time_limit_seconds)
    yield f"{history.namespace}/{history.type}, {repeatable}: lease {lease}, time limit {limit}"
    yield f"  {_sample(history, advice, since)}"
    if not advice.attempts:
        yield f"  too little data: {advice.lease.needs} attempts that ended are needed"
        return
    yield f"  {_fates(advice)}"
    yield from _table(
        ("", "ATTEMPTS", "HALF", "99 %", "99.9 %", "LONGEST"),
        [
            ("handlers that completed took", *_spread(advice.handler)),
            ("renewals came late by", *_spread(advice.delay)),
            ("longest round trips", *_spread(advice.round_trip)),
        ],
    )
    yield from _table(
        ("", "LEASE", "RENEWAL", "FALSE EXPIRIES", "GIVEN UP AFTER", "AT MOST", "RENEWALS/S OF 1000", "AN ATTEMPT"),
        [
            (
                *(one.name, _exact(one.lease_seconds), _rough(one.renewal_seconds)),
                _expiries(one.false_expiries, one.possible, one.unknown),
                *(_rough(one.recovery_mean_seconds), _rough(one.recovery_longest_seconds)),
                *(f"{one.renewals_per_second:.4g}", f"{one.renewals_per_attempt:.3g}"),
            )
            for one in advice.choices
        ],
    )
    yield from _table(
        ("", "TIME LIMIT", "CUT SHORT"),
        [(one.name, _exact(one.time_limit_seconds), str(one.cut)) for one in advice.limits],
    )
    yield f"  lease: {_advised(advice.lease)}"
    yield f"  time limit: {_advised(advice.time_limit)}"
    for line in (*_setting(history, advice), *_unrecorded(advice)):
        yield f"  {line}"


def _sample(history: LeaseHistory, advice: Advice, since: timedelta) -> str:
    ended = counted(advice.attempts, "attempt has ended", "attempts have ended")
    runs = f", {history.running} run" if history.running else ""
    if history.whole:
        return f"{ended}{runs}: all of the last {show_duration(since)}"
    return f"{ended}{runs}: a sample of the last {show_duration(since)}, out of {history.looked} attempts of all types"


def _fates(advice: Advice) -> str:
    falsely, silent, past = (advice.fates[one] for one in ("false_expiry", "silent", "past_limit"))
    said = f"lost their lease while their worker lived: {falsely or 'none'}"
    if not falsely and (bound := advice.attempts // _RULE_OF_THREE) > 1:
        said += f" (95 % confidence: fewer than one in {bound} do)"
    said += f"; lost and not heard of again: {silent or 'none'}"
    return said + (f"; lost past their time limit: {past}" if past else "")


def _expiries(sure: int, possible: int, unknown: int) -> str:
    text = f"{sure} to {sure + possible}" if possible else str(sure)
    return f"{text}, {unknown} unknown" if unknown else text


def _advised(advised: Advised) -> str:
    if advised.seconds is None:
        return f"too little data: {advised.has} attempts say something about it, {advised.needs} are needed"
    words = {Verdict.KEEP: "keep", Verdict.SHORTEN: "shorten to", Verdict.LENGTHEN: "lengthen to"}
    return f"{words[advised.verdict]} {_exact(advised.seconds)}"


def _setting(history: LeaseHistory, advice: Advice) -> Iterator[str]:
    changed = [
        f"{name}=timedelta({_argument(advised.seconds)})"
        for name, advised in (("lease", advice.lease), ("time_limit", advice.time_limit))
        if advised.seconds is not None and advised.verdict is not Verdict.KEEP
    ]
    if changed:
        yield (
            f"set: {', '.join(changed)} where {history.type} is declared, then `brokerjobs setup module:app`; "
            "jobs that exist keep theirs"
        )
    if advice.renewal_seconds is not None:
        every = _rough(advice.renewal_seconds)
        yield f"renewal: every {every}, a third of the lease, as it is done if `worker.renewal` is left out"
    third = history.lease_seconds / 3
    if advice.renewal_is_seen and abs(advice.current_renewal_seconds - third) > _OTHER_THIRD * third:
        yield (
            f"workers renewed every {_rough(advice.current_renewal_seconds)}, not at a third of the lease: "
            "`worker.renewal` is set, or they are slow"
        )


def _unrecorded(advice: Advice) -> Iterator[str]:
    """What the ledger does not know, as sentences."""
    left = advice.unrecorded
    facts = (
        (left.never_renewed, "delays and round trips of {} that ended before a renewal was due"),
        (left.not_told, "how the renewals of {} went, of which the worker told nothing"),
        (
            left.false_expiries,
            "the silence of {} that lost a lease and reported: longer than the lease, at most until the report",
        ),
        (left.silent, "whether the worker of {} not heard of again had died or was slow; it counts as died"),
        (left.limited, "how long {} that the time limit ended would have taken"),
        (not advice.renewal_is_seen, "how often workers renew, since no attempt did; a third of the lease is assumed"),
        (not advice.detection_is_seen, "how soon a lost lease is noticed here, since none was; a second is assumed"),
    )
    for count, fact in facts:
        if count:
            yield f"not recorded: {fact.format(counted(count, 'attempt', 'attempts'))}"


def _spread(spread: Spread) -> tuple[str, ...]:
    values = (spread.p50, spread.p99, spread.p999, spread.longest)
    return (str(spread.count), *("-" if value is None else _rough(value) for value in values))


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned lines, of which nothing is cut."""
    lines = [headers, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  " + _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _exact(seconds: float) -> str:
    return show_duration(timedelta(seconds=seconds))


def _rough(seconds: float) -> str:
    return moments.rough(timedelta(seconds=seconds))


def _argument(seconds: float) -> str:
    """What a timedelta is made with in Python."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{unit}={seconds / size:g}"
    return f"seconds={seconds:g}"
