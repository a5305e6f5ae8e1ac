"""What the model of one job is made of: every state of the world is one immutable value, and can be looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

FINISHED = ("succeeded", "failed", "cancelled")


class Job(NamedTuple):
    """The job's state row."""

    state: str = "queued"
    waiting: str = "delivery"  # delivery, retry, last (a retry that nobody may claim), or nothing
    ripe: bool = True  # the time until which it waits has come
    lease: str = ""  # live or over, while it runs
    attempt: int = 0  # the last attempt, from one
    started: bool = False  # its start was committed before its handler ran
    cancelled: bool = False  # a cancel is requested
    deadline: bool = False  # the deadline has passed
    charged: int = 0
    allowed: int = 2  # attempts; a decision of a person grants one more
    unknown: bool = False  # what became of an effect is unknown
    given_up: bool = False  # a person has given it up so
    reviews: int = 0  # how many have opened, where reconcilers ask


class Attempt(NamedTuple):
    """One attempt id: its two facts, each written once."""

    number: int = 0  # in the order of claims, like its fencing number; 0: not granted
    minted: bool = False  # a worker has made the id
    closed: str = ""  # completed, failed, released, cancelled, timed_out
    said: str = ""  # what its worker reported first
    verdict: str = ""  # accepted, recorded, rejected
    charged: bool = True


class Outside(NamedTuple):
    """What happened outside the ledger's own tables."""

    runs: int = 0  # how often unsafe work began
    runs_allowed: int = 1  # how often somebody has said that it may
    paid: int = 0  # committed writes of handlers' own transactions
    paid_stale: bool = False  # one of them by an attempt that the ledger had given up


class Try(NamedTuple):
    """One try of the effect: its key, and what is known of it."""

    repeatable: bool = False
    outcome: str = ""  # happened, did not happen
    by: int = 0  # the attempt that said so; 0: a person, a reconciler
    holders: tuple[int, ...] = ()  # the attempts that were permitted it
    denied: tuple[int, ...] = ()  # those of several that said that they did not make the call
    doubt: str = ""  # open, settled: an attempt said otherwise
    limit: bool = False  # the time limits of all its calls are over
    forgotten: bool = False  # the outside knows its key no longer
    ran: bool = False  # the call has arrived there; the ledger does not know


class Ledger(NamedTuple):
    """What one transaction sees and changes."""

    job: Job
    attempts: tuple[Attempt, ...]
    rings: int = 1  # in the outbox, not yet published
    outside: Outside = Outside()
    tries: tuple[Try, ...] = ()  # of the effect


class Worker(NamedTuple):
    """One worker process, with one slot."""

    phase: str = "idle"  # idle, delivered, claimed, active, reports, settles, hung
    attempt: int = 0
    outcome: str = ""  # what it has to report
    channel: str = ""  # of its delivery: good, lost, or none
    effect: int = 0  # how far the handler has come with its effect or transaction


class Reconciler(NamedTuple):
    """One that has taken up a review."""

    review: int  # which
    in_time: bool  # it asked after the time limits of all calls
    saw: str = ""  # happened, did not happen; too early: it was told so, and asks again when it may


class World(NamedTuple):
    """One state of everything."""

    ledger: Ledger
    workers: tuple[Worker, Worker]
    messages: int = 0  # at the broker
    delayed: tuple[str, int] | None = None  # a request that is still under way: call and attempt
    faults: int = 0  # that may still happen
    decisions: int = 0  # of persons, that may still happen
    reconciler: Reconciler | None = None
    calling: int = 0  # the try, from one, whose call goes on though its handler has ended


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is agreed: as amended and built by default, and each thing as it was once written."""

    takes_over: bool = False  # a claim takes over a run out lease without the expire step
    guard: Literal["row", "state"] = "row"  # "state": a running job's result is taken from anybody
    reports_once: bool = True
    two_facts: bool = True  # False: a late report changes how its attempt was closed
    unknown_first: bool = True  # False: cancel and deadline end a job with an unknown outcome
    obeys_cancel: bool = True  # wherever an attempt ends
    result_obeys_cancel: bool = True
    result_obeys_deadline: bool = True
    release_looks: bool = True  # at a start, or at an intent without outcome
    start_awaited: bool = True
    claimed_counts_as_started: bool = False
    rings_on_release: bool = True
    fence_needs_running: bool = True
    after_unknown_commit: Literal["asks", "completes", "pays again"] = "asks"
    repeated_transaction_raises: bool = True  # False: it is answered its stored verdict and commits
    replay_clears: bool = True
    keeps_its_word: bool = True  # False: a worker that got no answer reports something else
    ack_on_claim: bool = False
    intent_needs_running: bool = True
    intent_stops_others: bool = True  # False: an open intent of another attempt stops nobody
    intent_looks_at_all: bool = True  # False: at the last try only
    late_outcomes: bool = True  # False: what a fenced off attempt says of its effect is not taken
    last_outcome_wins: bool = False
    denial_speaks_for_all: bool = False  # True: "it did not happen" of one attempt, also of others with its key
    result_obeys_unknown: bool = True
    reconciler_waits: Literal["to ask", "to say", "never"] = "to ask"  # for the time limits of calls


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is looked at: what may happen at all, and how often."""

    faults: int = 1
    attempts: int = 3  # ids
    allowed: int = 2
    decisions: int = 0
    messages: int = 2
    rings: int = 2
    once: bool = False  # the type is not repeatable
    effect: Literal["", "once", "repeatable"] = ""  # the handler has one
    refuses: bool = False  # the outside may refuse a call: it did not happen
    forgets: bool = False  # the outside forgets keys some time
    reconciler: bool = False  # reconcilers ask the outside
    goes_on: bool = False  # a call may go on when its handler has ended, as threads do
    swallows: bool = False  # a handler may return whatever its effect came to
    outside_alone: bool = False  # of effects, only what is done outside is looked at
    late_calls: bool = True  # a process may be paused between permission and call for longer than its limit
    transaction: Literal["", "fences", "completes"] = ""  # the handler has one of its own
    cancel: bool = False
    deadline: bool = False
    drain: bool = True
    other_ends: bool = False  # a handler may also say that its job is invalid, or its outcome unknown
    delays: bool = True
    loses_messages: bool = True
    hangs: bool = True
    reconcile: bool = True
    replay: bool = False  # decisions may also replay a failed job
    forbids_false_reviews: bool = False
