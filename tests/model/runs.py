"""The runs: each protocol as it was once written, with the promise that it breaks; and as it is, which breaks none.

The names are those of the protocol's review: A as written, N a negative control, F as amended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tests.model.facts import Bounds, Protocol
from tests.model.search import Found, Search
from tests.model.world import Model

_AS_BUILT: Final = Protocol()
_UNKNOWN_ELSEWHERE: Final = "an effect is unknown, and its job neither runs nor is in review"
_UNSAFE_AGAIN: Final = "unsafe work is done again though nobody said that it may be"


@dataclass(frozen=True, slots=True)
class Run:
    """One question to the model."""

    name: str
    question: str
    bounds: Bounds
    protocol: Protocol = _AS_BUILT
    breaks: str | None = None
    is_stuck: bool = False

    def with_faults(self, faults: int) -> Run:
        """The same question with another budget of faults."""
        return replace(self, bounds=replace(self.bounds, faults=faults))

    def search(self, most_states: int) -> Found:
        """Asks it."""
        return Search(Model(self.protocol, self.bounds), most_states).run(until=self.breaks)

    def is_as_expected(self, found: Found) -> bool:
        """Whether it found what it must find, and nothing else."""
        if self.breaks is not None:
            return self.breaks in found.breaches
        return not found.breaches and (found.stuck is not None) == self.is_stuck


AS_WRITTEN: Final = (
    Run(
        "A2",
        "is a late success a change of how its attempt was closed?",
        Bounds(faults=0, drain=False),
        Protocol(two_facts=False),
        breaks="an attempt closed as timed_out becomes completed",
    ),
    Run(
        "A4",
        "may an attempt report again after a replay of its failed job?",
        Bounds(faults=1, allowed=1, decisions=1, replay=True, drain=False),
        Protocol(reports_once=False, replay_clears=False),
        breaks="a report rejected before is accepted now",
    ),
    Run(
        "A5",
        "may a result be accepted in spite of a cancel request?",
        Bounds(faults=0, cancel=True),
        Protocol(result_obeys_cancel=False),
        breaks="a result is accepted in spite of a cancel request",
    ),
    Run(
        "A6",
        "may an attempt end without a look at a cancel request?",
        Bounds(faults=0, cancel=True),
        Protocol(obeys_cancel=False),
        breaks="a cancel request is forgotten",
    ),
    Run(
        "A8",
        "may a result be accepted without a look at the clock?",
        Bounds(faults=0, deadline=True),
        Protocol(result_obeys_deadline=False),
        breaks="a result is accepted after the deadline",
    ),
    Run(
        "A11",
        "may a cancel or a deadline end a job whose effect has no outcome?",
        Bounds(faults=0, effect="once", cancel=True, deadline=True, drain=False),
        Protocol(unknown_first=False),
        breaks="a job ends and hides that the outcome of its effect is unknown",
    ),
    Run(
        "A10",
        "may a release leave an unknown effect behind?",
        Bounds(faults=0, attempts=2, effect="once"),
        Protocol(release_looks=False),
        breaks=_UNKNOWN_ELSEWHERE,
    ),
    Run(
        "A9 unstopped",
        "may an open intent of another attempt stop nobody?",
        Bounds(faults=1, attempts=2, effect="once", drain=False, outside_alone=True),
        Protocol(takes_over=True, intent_stops_others=False),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "C9 given up",
        "may an effect be permitted to an attempt that was given up?",
        Bounds(faults=0, attempts=2, effect="once", drain=False),
        Protocol(intent_needs_running=False),
        breaks="an effect is permitted to an attempt that does not run",
    ),
    Run(
        "C9 result",
        "may a result be accepted while what became of its effect is unknown?",
        Bounds(faults=0, attempts=2, effect="once", swallows=True, drain=False),
        Protocol(result_obeys_unknown=False),
        breaks=_UNKNOWN_ELSEWHERE,
    ),
    Run(
        "C9 twice",
        "may a second outcome replace the first?",
        Bounds(faults=0, attempts=2, effect="once", decisions=1, drain=False),
        Protocol(last_outcome_wins=True),
        breaks="what became of an effect is written again",
    ),
    Run(
        "C9 doubt",
        "may an effect be tried again though an earlier try is in doubt?",
        Bounds(faults=0, attempts=3, allowed=3, effect="once", refuses=True, decisions=1, drain=False),
        Protocol(intent_looks_at_all=False),
        breaks="an effect is permitted while one of its tries is in doubt",
    ),
    Run(
        "C9 one of two",
        'may "it did not happen" of one attempt speak for another with the same key?',
        Bounds(faults=0, allowed=3, effect="repeatable", refuses=True, drain=False),
        Protocol(denial_speaks_for_all=True),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "C9 hook",
        "may a reconciler be believed while a call may be under way?",
        Bounds(faults=0, attempts=2, effect="once", reconciler=True, goes_on=True, late_calls=False, drain=False),
        Protocol(reconciler_waits="never"),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "C9 slow hook",
        "may a reconciler that asked before the call's time limit be believed after it?",
        Bounds(faults=0, attempts=2, effect="once", reconciler=True, goes_on=True, late_calls=False, drain=False),
        Protocol(reconciler_waits="to say"),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "C9 paused",
        "does a call stay safe that arrives after its time limit? No protocol can make it so",
        Bounds(faults=0, attempts=2, effect="once", reconciler=True, drain=False),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "A12",
        "may a transaction that does not complete commit late?",
        Bounds(faults=0, transaction="fences", drain=False),
        Protocol(fence_needs_running=False),
        breaks="a handler's transaction commits though its attempt was given up",
    ),
    Run(
        "A15",
        "may a release leave the ring to others?",
        Bounds(faults=0, reconcile=False, loses_messages=False, hangs=False),
        Protocol(rings_on_release=False),
        is_stuck=True,
    ),
    Run(
        "A16",
        "may a worker report something else when the first report got no answer?",
        Bounds(faults=1),
        Protocol(reports_once=False, keeps_its_word=False),
        breaks="a report recorded before is accepted now",
    ),
    Run(
        "A19",
        "may a claim take over a job whose lease is over?",
        Bounds(faults=1, once=True, drain=False),
        Protocol(takes_over=True),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "A20",
        "may a started attempt that is not repeatable be released into the queue?",
        Bounds(faults=0, once=True),
        Protocol(release_looks=False),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "A21",
        "may a handler begin before its start is recorded?",
        Bounds(faults=0, once=True),
        Protocol(start_awaited=False),
        breaks=_UNSAFE_AGAIN,
    ),
    Run(
        "A22",
        "does a claim alone count as a start?",
        Bounds(faults=0, once=True, forbids_false_reviews=True),
        Protocol(claimed_counts_as_started=True),
        breaks="a review is opened for work that never began",
    ),
    Run(
        "A23",
        "may a plain completion follow a COMMIT without an answer?",
        Bounds(faults=1, transaction="completes", drain=False),
        Protocol(after_unknown_commit="completes"),
        breaks="a job succeeds without its handler's writes",
    ),
    Run(
        "A23 again",
        "may a second transaction be answered the stored verdict?",
        Bounds(faults=1, transaction="completes", drain=False),
        Protocol(after_unknown_commit="pays again", repeated_transaction_raises=False),
        breaks="a handler's transaction commits twice",
    ),
    Run(
        "N1",
        "is the state alone a guard?",
        Bounds(faults=1, drain=False),
        Protocol(guard="state", reports_once=False),
        breaks="the accepted attempt does not hold the largest fencing number",
    ),
)
AS_BUILT: Final = (
    Run("F1", "the core", Bounds(faults=1)),
    Run("F2", "with cancels", Bounds(faults=1, attempts=2, cancel=True)),
    Run("F3", "with cancels and deadlines", Bounds(faults=0, cancel=True, deadline=True, other_ends=True)),
    Run("F4", "effects", Bounds(faults=1, attempts=2, effect="once", hangs=False, drain=False)),
    Run("F5", "effects, cancels, deadlines", Bounds(faults=0, attempts=2, effect="once", cancel=True, deadline=True)),
    Run("F6", "effects and decisions", Bounds(faults=0, attempts=2, effect="once", decisions=2, refuses=True)),
    Run(
        "F6 replays",
        "effects that were given up",
        Bounds(faults=0, attempts=2, allowed=1, effect="once", decisions=2, replay=True, cancel=True, drain=False),
    ),
    Run(
        "F6 thrice",
        "effects and a decision, three attempts",
        Bounds(faults=0, allowed=3, effect="once", decisions=1, drain=False, messages=1, rings=1),
    ),
    Run(
        "F6 keys",
        "effects with keys that are forgotten",
        Bounds(faults=0, attempts=2, effect="repeatable", refuses=True, forgets=True, decisions=1, drain=False),
    ),
    Run(
        "F6 asked",
        "effects, reconcilers, a decision",
        Bounds(
            faults=0,
            attempts=2,
            effect="once",
            reconciler=True,
            goes_on=True,
            late_calls=False,
            decisions=1,
            drain=False,
        ),
    ),
    Run(
        "F6 once",
        "effects of types that are not repeatable",
        Bounds(faults=0, attempts=2, once=True, effect="once", decisions=1),
    ),
    Run("F7", "replays", Bounds(faults=1, attempts=2, allowed=1, decisions=1, replay=True, drain=False)),
    Run("F8", "ack on claim", Bounds(faults=1, attempts=2), Protocol(ack_on_claim=True)),
    Run("F9", "transactions that fence", Bounds(faults=0, transaction="fences")),
    Run("F10", "no reconcile", Bounds(faults=1, attempts=2, reconcile=False, loses_messages=False, hangs=False)),
    Run("F12", "not repeatable", Bounds(faults=1, attempts=2, once=True)),
    Run(
        "F13",
        "not repeatable, with everything",
        Bounds(faults=0, attempts=2, once=True, cancel=True, deadline=True, decisions=1, forbids_false_reviews=True),
    ),
    Run("A24", "transactions that complete", Bounds(faults=2, attempts=2, transaction="completes")),
    Run(
        "A23 raises",
        "a second transaction is refused",
        Bounds(faults=1, transaction="completes", drain=False),
        Protocol(after_unknown_commit="pays again"),
    ),
    Run(
        "A9",
        "an intent stops the second of two attempts whatever else is wrong",
        Bounds(
            faults=1, attempts=2, effect="once", outside_alone=True, drain=False, delays=False, hangs=False, messages=1
        ),
        Protocol(takes_over=True),
    ),
    Run(
        "A10 stopped",
        "also if the first was released",
        Bounds(faults=0, attempts=2, effect="once", outside_alone=True),
        Protocol(release_looks=False),
    ),
    Run(
        "A18",
        "so it does before the start is recorded",
        Bounds(faults=0, attempts=2, once=True, effect="once", outside_alone=True),
        Protocol(takes_over=True, start_awaited=False),
    ),
)
